use super::super::channel::Channels;
use super::super::spec::{Body, Dialect, Form, Header};

pub(super) fn dialect() -> Dialect {
    Dialect::new("functionary_v32")
        .models(["functionary-small-v3.2", "functionary-medium-v3.2", "functionary-v3.2"])
        .channels(Channels::Functionary)
        .form(Form::new(Body::Header(Header::default())))
        .markup(["<|eot_id|>"])
        .example("all\nLet me look.>>>get_weather\n{\"city\": \"Oslo\"}")
}
