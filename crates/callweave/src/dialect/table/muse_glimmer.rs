use super::super::channel::Channels;
use super::super::spec::{Body, Closer, Dialect, Form, Tag, Tagged};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::with_attribute("<atem:invoke", "name", ">"),
        call_close: vec!["</atem:invoke>".to_owned()],
        parameter: Tag::with_attribute("<atem:parameter", "name", ">"),
        value_close: "</atem:parameter>".to_owned(),
        closer: Closer::Confirmed,
        ..Tagged::default()
    };
    Dialect::new("muse_glimmer")
        .models(["muse-glimmer", "muse_glimmer"])
        .channels(Channels::Muse)
        .form(
            Form::new(Body::Tagged(body))
                .shared()
                .between("<atem:function_calls>", "</atem:function_calls>")
                .close("<|eom|>")
                .close("<|eot|>"),
        )
        .example(
            "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n\
             <atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Oslo</atem:parameter>\n\
             </atem:invoke>\n</atem:function_calls><|eom|>",
        )
}
