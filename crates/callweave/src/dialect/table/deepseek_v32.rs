use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};

pub(super) fn dialect() -> Dialect {
    dsml("deepseek_v32", "function_calls")
        .models(["deepseek-v3.2"])
        .result("<function_results>\n<result>{content}</result>\n</function_results>")
}

pub(super) fn deepseek_v4() -> Dialect {
    dsml("deepseek_v4", "tool_calls").aliases(["deepseek_v41"]).models(["deepseek-v4"])
}

/// The two differ in the word for a section of calls.
fn dsml(name: &str, section: &str) -> Dialect {
    let form = |word: &str| {
        let type_attribute = Some("string".to_owned());
        let body = TaggedBody { type_attribute, ..TaggedBody::invoke(word) };
        CallForm::new(CallBody::Tagged(body))
            .shared()
            .between(&format!("<{word}{section}>"), &format!("</{word}{section}>"))
    };
    Dialect::new(name)
        .reasoning("<think>", "</think>")
        .form(form("｜DSML｜"))
        // Where the special tokens are lost.
        .form(form(""))
        .markup(["<｜end▁of▁sentence｜>"])
        .example(&format!(
            "<｜DSML｜{section}>\n<｜DSML｜invoke name=\"get_weather\">\n\
             <｜DSML｜parameter name=\"city\" string=\"true\">Oslo</｜DSML｜parameter>\n\
             </｜DSML｜invoke>\n</｜DSML｜{section}>"
        ))
}
