//! The live view of a response while it comes.

use callweave::Value;
use callweave::dialect::ExtractOptions;
use callweave::event::FinishReason;
use callweave::live::LiveItem;
use callweave::pipeline::{Decoder, FrameDecoder};
use callweave::read::ItemReader;

const TEXT: &str = "<think>Rain?</think>Let me look. <tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"the sky\"}}</tool_call>";

/// A stream with the text in pieces of `size` characters.
fn stream(size: usize) -> String {
    let pieces: Vec<char> = TEXT.chars().collect();
    let chunk = |piece: &[char]| {
        let piece: String = piece.iter().collect();
        let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        format!("data: {delta}\n\n")
    };
    let end =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    pieces.chunks(size).map(chunk).collect::<String>() + end
}

fn decoder() -> Decoder {
    Decoder::builder().dialect(ExtractOptions::new("hermes").expect("a dialect")).repair().build()
}

/// The sum of the items, one line each, texts joined.
#[derive(Default, PartialEq, Debug)]
struct Followed {
    text: String,
    thoughts: String,
    growing: Vec<String>,
    done: Vec<String>,
    finish: Option<FinishReason>,
}

impl Followed {
    fn take(&mut self, item: LiveItem<'_>) {
        match item {
            LiveItem::Text(text) => self.text.push_str(&text),
            LiveItem::Reasoning(thought) => self.thoughts.push_str(&thought),
            LiveItem::Call(call) => {
                assert_eq!(call.name, "look");
                self.growing.extend(call.value.map(ToString::to_string));
            }
            LiveItem::CallDone(call) => self.done.push(call.arguments().to_owned()),
            LiveItem::Finish(reason) => self.finish = Some(reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn items_are_told_as_the_answer_grows() {
    for size in [1, 3, 7, 1000] {
        let mut items = ItemReader::with(std::io::Cursor::new(stream(size)), decoder());
        let mut followed = Followed::default();
        while let Some(item) = items.lend() {
            followed.take(item.expect("a sound stream"));
        }
        assert_eq!((followed.text.as_str(), followed.thoughts.as_str()), ("Let me look. ", "Rain?"));
        assert_eq!(followed.done, [r#"{"at": "the sky"}"#]);
        assert_eq!(followed.finish, Some(FinishReason::ToolCalls));
        assert_eq!(followed.growing.last().map(String::as_str), Some(r#"{"at":"the sky"}"#));
        if size == 1 {
            assert!(
                followed.growing.iter().any(|value| value == r#"{"at":"the"}"#),
                "{:?}",
                followed.growing
            );
        }
        assert_eq!(items.decoder().dialect(), Some("hermes"));
        assert_eq!(items.message().tool_calls().count(), 1);
        assert_eq!(items.into_messages().len(), 1);
    }
}

/// An iterator gives the items that are lent, without the values of calls that grow.
#[test]
fn items_can_be_iterated() {
    let mut lending = ItemReader::with(std::io::Cursor::new(stream(3)), decoder());
    let mut lent = Vec::new();
    while let Some(item) = lending.lend() {
        lent.push(item.expect("a sound stream").into_owned());
    }
    let mut own = Vec::new();
    for item in ItemReader::with(std::io::Cursor::new(stream(3)), decoder()) {
        own.push(item.expect("a sound stream"));
    }
    assert_eq!(own, lent);
    let pieces = own.iter().filter_map(|item| match item {
        LiveItem::Call(call) => Some(call.piece.as_ref()),
        _ => None,
    });
    assert_eq!(pieces.collect::<String>(), r#"{"at": "the sky"}"#);
    assert!(own.iter().any(|item| matches!(item, LiveItem::CallDone(call) if call.parse::<Value>().is_ok())));
}

#[cfg(feature = "async")]
#[test]
fn a_stream_gives_the_same_items() {
    let chunks = stream(5).into_bytes();
    let chunks: Vec<_> = chunks.chunks(11).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
    let mut items = callweave::stream::ItemStream::with(futures::stream::iter(chunks), decoder());
    let mut followed = Followed::default();
    futures::executor::block_on(async {
        while let Some(item) = items.lend().await {
            followed.take(item.expect("a sound stream"));
        }
    });
    let all = std::io::Cursor::new(stream(5));
    let read: Vec<_> = ItemReader::with(all, decoder()).map(|item| item.expect("a sound stream")).collect();
    let chunks = [Ok::<_, std::io::Error>(stream(5))];
    let own = callweave::stream::ItemStream::with(futures::stream::iter(chunks), decoder());
    let own = futures::executor::block_on(futures::StreamExt::collect::<Vec<_>>(own));
    assert_eq!(own.into_iter().map(|item| item.expect("a sound stream")).collect::<Vec<_>>(), read);
    assert_eq!(
        (followed.done, followed.text),
        (vec![r#"{"at": "the sky"}"#.to_owned()], "Let me look. ".to_owned())
    );
}

/// A running decode can be stored and sent to another thread.
#[test]
fn everything_that_runs_can_be_sent() {
    fn is_sent<T: Send + 'static>() {}
    is_sent::<Decoder>();
    is_sent::<FrameDecoder>();
    is_sent::<callweave::Encoder>();
    is_sent::<callweave::Accumulator>();
    is_sent::<callweave::live::LiveView>();
    is_sent::<callweave::pipeline::DecoderBuilder>();
    is_sent::<ItemReader<std::io::Empty>>();
}
