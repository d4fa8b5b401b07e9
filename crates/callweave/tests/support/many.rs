//! Inputs with very many of one thing, of any size.

use callweave::event::AttachmentKind;
use callweave::message::Message;

/// A way to have very many of something, how many there are at full size, and what must come of it.
#[allow(dead_code, reason = "who counts work asks for less")]
pub(crate) struct Many {
    pub(crate) name: &'static str,
    pub(crate) full: usize,
    pub(crate) make: fn(usize) -> Vec<u8>,
    pub(crate) check: fn(usize, &Message),
}

fn complete_calls(count: usize) -> Vec<u8> {
    let calls = (0..count)
        .map(|at| format!("{{\"id\":\"c{at}\",\"function\":{{\"name\":\"f\",\"arguments\":\"{{}}\"}}}}"));
    let calls: Vec<_> = calls.collect();
    format!(
        "{{\"object\":\"chat.completion\",\"choices\":[{{\"message\":{{\"tool_calls\":[{}]}},\"finish_reason\":\"tool_calls\"}}]}}",
        calls.join(",")
    )
    .into_bytes()
}

fn call_count(expected: usize, message: &Message) {
    assert_eq!(message.tool_calls().count(), expected);
}

pub(crate) const MANY: &[Many] = &[
    Many {
        name: "parallel calls, streamed",
        full: 100_000,
        make: |count| {
            let call = |at: usize, piece: &'static str, head: String| {
                format!("{{\"tool_calls\":[{{\"index\":{at},{head}\"arguments\":\"{piece}\"}}}}]}}")
            };
            let begin = (0..count)
                .map(move |at| call(at, "{", format!("\"id\":\"c{at}\",\"function\":{{\"name\":\"f\",")));
            let end = (0..count).map(move |at| call(at, "}", "\"function\":{".to_owned()));
            chat(begin.chain(end))
        },
        check: |count, message| {
            call_count(count, message);
            assert!(message.tool_calls().all(|call| call.arguments() == "{}"));
        },
    },
    Many { name: "parallel calls, whole", full: 100_000, make: complete_calls, check: call_count },
    Many {
        name: "calls that have a name and nothing else",
        full: 100_000,
        make: |count| {
            let calls: Vec<_> = (0..count)
                .map(|at| format!("{{\"id\":\"c{at}\",\"function\":{{\"name\":\"f\"}}}}"))
                .collect();
            chat([format!("{{\"tool_calls\":[{}]}}", calls.join(","))].into_iter())
        },
        check: call_count,
    },
    Many {
        name: "calls without a name",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|at| format!("{{\"tool_calls\":[{{\"index\":{at},\"id\":\"c{at}\",\"function\":{{\"arguments\":\"{{}}\"}}}}]}}")))
        },
        check: call_count,
    },
    Many {
        name: "names without arguments, frame by frame",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|at| {
                format!(
                    "{{\"tool_calls\":[{{\"index\":{at},\"id\":\"c{at}\",\"function\":{{\"name\":\"f\"}}}}]}}"
                )
            }))
        },
        check: call_count,
    },
    Many {
        name: "choices",
        full: 100_000,
        make: |count| {
            let choice = |at: usize| {
                format!(
                    "{{\"choices\":[{{\"index\":{at},\"delta\":{{\"content\":\"a\",\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"f\"}}}}]}}}}]}}"
                )
            };
            events((0..count).chain(0..count).map(choice))
        },
        check: |count, message| assert_eq!(message.choices.len(), count),
    },
    Many {
        name: "content blocks",
        full: 100_000,
        make: |count| {
            let block = |at: usize| {
                [
                    format!(
                        "{{\"type\":\"content_block_start\",\"index\":{at},\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}"
                    ),
                    format!(
                        "{{\"type\":\"content_block_delta\",\"index\":{at},\"delta\":{{\"type\":\"text_delta\",\"text\":\"a\"}}}}"
                    ),
                    format!("{{\"type\":\"content_block_stop\",\"index\":{at}}}"),
                ]
            };
            events((0..count).flat_map(block))
        },
        check: |count, message| assert_eq!(message.text().len(), count),
    },
    Many {
        name: "restatements of one text",
        full: 10_000,
        make: |count| {
            let text = "0123456789".repeat(10);
            let done = format!(
                "{{\"type\":\"response.output_text.done\",\"output_index\":0,\"content_index\":0,\"text\":\"{text}\"}}"
            );
            let delta = done.replace(".done\"", ".delta\"").replace("\"text\":", "\"delta\":");
            events(std::iter::once(delta).chain(std::iter::repeat_n(done, count)))
        },
        check: |_, message| assert_eq!(message.text().len(), 100),
    },
    Many {
        name: "restatements that differ",
        full: 10_000,
        make: |count| {
            events((0..count).map(|at| {
                format!("{{\"type\":\"response.output_text.done\",\"output_index\":{},\"content_index\":0,\"text\":\"{at}\"}}", at % 7)
            }))
        },
        check: |_, _| {},
    },
    Many {
        name: "one call id, again and again",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|_| {
                "{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}"
                    .to_owned()
            }))
        },
        check: |_, message| call_count(1, message),
    },
    Many {
        name: "a gigantic name, in pieces",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|_| {
                "{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"0123456789\"}}]}"
                    .to_owned()
            }))
        },
        check: |_, message| call_count(1, message),
    },
    Many {
        name: "foreign fields",
        full: 100_000,
        make: |count| {
            let fields: String = (0..count).map(|at| format!(",\"x{at}\":{at}")).collect();
            chat(
                [format!("{{\"content\":\"a\"{fields}}}"), format!("{{\"content\":\"b\"{fields}}}")]
                    .into_iter(),
            )
        },
        check: |count, message| {
            let extra = message.choices.iter().map(|choice| choice.extra.len()).sum::<usize>();
            assert_eq!(extra + message.extra.len(), count);
        },
    },
    Many {
        name: "foreign fields, one per frame",
        full: 100_000,
        make: |count| chat((0..count).map(|at| format!("{{\"content\":\"a\",\"x{at}\":{at}}}"))),
        check: |count, message| assert_eq!(message.text().len(), count),
    },
    Many {
        name: "thoughts told twice in every frame",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|_| "{\"reasoning\":\"a\",\"reasoning_content\":\"a\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"a\",\"index\":0}]}".to_owned()))
        },
        check: |count, message| assert_eq!(message.reasoning().len(), count),
    },
    Many {
        name: "text and thoughts by turns",
        full: 100_000,
        make: |count| {
            chat((0..count).map(|at| {
                let key = if at % 2 == 0 { "content" } else { "reasoning_content" };
                format!("{{\"{key}\":\"a\"}}")
            }))
        },
        check: |count, message| {
            let blocks = message.first().map_or(0, |choice| choice.blocks.len());
            assert_eq!(blocks, count);
        },
    },
    Many {
        name: "annotations and log probabilities",
        full: 100_000,
        make: |count| {
            events((0..count).map(|at| {
                format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\",\"annotations\":[{{\"n\":{at}}}]}},\"logprobs\":{{\"content\":[{{\"token\":\"a\"}}]}}}}]}}")
            }))
        },
        check: |count, message| {
            assert_eq!(message.choices[0].attachments(AttachmentKind::Annotation).count(), count);
            assert_eq!(message.choices[0].attachments(AttachmentKind::Logprobs).count(), count);
        },
    },
    Many {
        name: "usage that changes in every frame",
        full: 100_000,
        make: |count| {
            events((0..count).map(|at| {
                format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}],\"usage\":{{\"completion_tokens\":{at}}}}}")
            }))
        },
        check: |count, message| {
            let usage = message.usage.as_ref().expect("usage");
            assert_eq!(usage.counters.output_tokens, Some(count as u64 - 1));
        },
    },
];

pub(crate) fn chat(deltas: impl Iterator<Item = String>) -> Vec<u8> {
    let mut stream = String::new();
    for delta in deltas {
        stream += &format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    }
    stream +=
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    stream.into_bytes()
}

pub(crate) fn events(events: impl Iterator<Item = String>) -> Vec<u8> {
    events.map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}
