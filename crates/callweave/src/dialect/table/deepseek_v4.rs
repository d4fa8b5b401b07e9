use super::super::spec::{Body, Dialect, Form, Tag, Tagged, ValueTypes};

pub(super) fn dialect() -> Dialect {
    let body = Tagged {
        call: Tag::with_attribute("<｜DSML｜invoke", "name", ">"),
        call_close: vec!["</｜DSML｜invoke>".to_owned()],
        parameter: Tag::with_attribute("<｜DSML｜parameter", "name", ">"),
        value_close: "</｜DSML｜parameter>".to_owned(),
        types: ValueTypes::IsString("string".to_owned()),
        ..Tagged::default()
    };
    Dialect::new("deepseek_v4")
        .aliases(["deepseek_v41"])
        .models(["deepseek-v4"])
        .thoughts("<think>", "</think>")
        .form(Form::new(Body::Tagged(body)).shared().between("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"))
        .markup(["<｜end▁of▁sentence｜>"])
        .example(
            "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n\
             <｜DSML｜parameter name=\"city\" string=\"true\">Oslo</｜DSML｜parameter>\n\
             </｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        )
}
