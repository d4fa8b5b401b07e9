use super::super::channel::Channels;
use super::super::spec::{Body, Dialect, Form, Tagged};

pub(super) fn dialect() -> Dialect {
    Dialect::new("muse_glimmer")
        .models(["muse-glimmer", "muse_glimmer"])
        .channels(Channels::Muse)
        .form(
            Form::new(Body::Tagged(Tagged::invoke("atem:")))
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
