pub(in crate::dialect) mod elements;

use self::elements::Elements;
use crate::dialect::spec::{Body, Dialect, Form, Tag};

pub(super) fn dialect() -> Dialect {
    let body = Elements {
        prefix: "]<]minimax[>[".to_owned(),
        call: Tag::with_attribute("<invoke", "name", ">"),
        call_close: "</invoke>".to_owned(),
        item: "item".to_owned(),
    };
    Dialect::new("minimax_m3")
        .models(["minimax-m3"])
        .thoughts("<mm:think>", "</mm:think>")
        .form(
            Form::new(Body::Elements(body))
                .shared()
                .between("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>")
                .close("]<]minimax[>[</invoke>"),
        )
        .example(
            "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Oslo\
             ]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        )
}
