pub(in crate::dialect) mod elements;

use self::elements::ElementsBody;
use crate::dialect::spec::{CallBody, Dialect, CallForm, NamedTag};

pub(super) fn dialect() -> Dialect {
    let body = ElementsBody {
        prefix: "]<]minimax[>[".to_owned(),
        call: NamedTag::with_attribute("<invoke", "name", ">"),
        call_close: "</invoke>".to_owned(),
        item: "item".to_owned(),
    };
    Dialect::new("minimax_m3")
        .models(["minimax-m3"])
        .reasoning("<mm:think>", "</mm:think>")
        .form(
            CallForm::new(CallBody::Elements(body))
                .shared()
                .between("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>")
                .close("]<]minimax[>[</invoke>"),
        )
        .example(
            "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Oslo\
             ]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        )
}
