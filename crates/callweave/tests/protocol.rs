//! Protocols: our own cases and, where it is at hand, recorded traffic, under all laws.

#[path = "support/cores.rs"]
mod cores;
mod laws;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeMap;
use std::fs;

use callweave::event::AttachmentKind;
use callweave::message::BlockContent;
use callweave::protocol::{Protocol, TABLE, read_error};
use callweave::upstream::ErrorClass;
use cores::each;
use laws::{check_laws, comparable, data, expect, folders, name};

/// The one file of a case that is called `input`, with any ending.
fn input(case: &std::path::Path) -> Vec<u8> {
    let path = fs::read_dir(case)
        .expect("a readable case")
        .map(|entry| entry.expect("a readable entry").path())
        .find(|path| path.file_stem().is_some_and(|stem| stem == "input"))
        .unwrap_or_else(|| panic!("{} has no input file", case.display()));
    fs::read(path).expect("a readable input")
}

#[test]
fn every_protocol_has_a_folder_and_every_folder_a_protocol() {
    let found: Vec<_> = folders(&data("protocol")).iter().map(|path| name(path)).collect();
    let mut names: Vec<_> = TABLE.iter().map(|protocol| protocol.name.to_owned()).collect();
    names.sort();
    assert_eq!(found, names);
}

#[test]
fn own_cases_hold_all_laws() {
    let cases: Vec<_> = folders(&data("protocol")).iter().flat_map(|folder| folders(folder)).collect();
    assert!(!cases.is_empty(), "no cases");
    each(&cases, |case| {
        let folder = case.parent().expect("a case is in the folder of its protocol");
        let protocol = Protocol::named(&name(folder)).expect("a protocol of that name");
        let title = format!("{}/{}", protocol.name, name(case));
        let bytes = input(case);
        let named = check_laws(&title, Some(protocol), &bytes, 150);
        let events: String = named
            .events
            .iter()
            .map(|event| serde_json::to_string(event).expect("events serialise") + "\n")
            .chain(named.error.iter().map(|error| format!("# {error}\n")))
            .collect();
        expect(&case.join("expected.events.jsonl"), &events);
        let pretty = |message| serde_json::to_string_pretty(message).expect("messages serialise") + "\n";
        let messages: String = named.messages.iter().map(pretty).collect();
        expect(&case.join("expected.message.json"), &messages);
        let found = laws::decode_truncated(None, &bytes, &[]);
        assert_eq!(found.events, named.events, "{title}: found to be {:?}", found.protocol);
    });
}

/// `stream-x` and `whole-x` are the same response, streamed and complete.
#[test]
fn streamed_and_whole_give_the_same_message() {
    let mut count = 0;
    for folder in folders(&data("protocol")) {
        for case in folders(&folder) {
            let Some(twin) =
                name(&case).strip_prefix("stream-").map(|rest| folder.join(format!("whole-{rest}")))
            else {
                continue;
            };
            if !twin.exists() {
                continue;
            }
            let [streamed, whole] = [&case, &twin]
                .map(|case| comparable(&laws::decode_truncated(None, &input(case), &[]).messages[0]));
            assert_eq!(streamed, whole, "{}", case.display());
            count += 1;
        }
    }
    assert!(count > 0, "no pairs");
}

#[test]
fn recorded_traffic_holds_all_laws() {
    for corpus in ["corpus", "corpus-2"].into_iter().filter_map(shared::find) {
        recorded(&corpus);
    }
}

fn recorded(corpus: &std::path::Path) {
    let index = fs::read_to_string(corpus.join("INDEX.jsonl")).expect("an index");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in index.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("an index row");
        let (file, protocol) =
            (row["file"].as_str().unwrap_or_default(), row["protocol"].as_str().unwrap_or_default());
        let Some(expected) = Protocol::named(protocol).map(|protocol| protocol.name) else { continue };
        let bytes = fs::read(corpus.join(file)).expect("a recorded file");
        let is_error = row["is_error"].as_bool().unwrap_or(false) || file.ends_with("-error.json");
        let decoded = check_laws(file, None, &bytes, if bytes.len() > 100_000 { 3 } else { 12 });
        *seen.entry(expected.to_owned()).or_default() += 1;
        if let Some(error) = &decoded.error
            && !is_cut_short(file)
        {
            complaints.push(format!("{file}: {error}"));
        }
        // A complete Invoke body is the model vendor's own body, without any envelope.
        let is_bare = expected == "bedrock-invoke" && file.ends_with(".json");
        if !is_error
            && !is_bare
            && !is_cut_short(file)
            && !is_mislabelled(file)
            && decoded.protocol != Some(expected)
        {
            complaints.push(format!("{file}: found to be {:?}", decoded.protocol));
        }
        // One choice failed; the index speaks of the body as a whole.
        let has_failed_choice = file.ends_with("openrouter-gemini-2.5-flash-lite-object-basic.json");
        let error = decoded.messages.iter().flat_map(|message| &message.errors).next();
        if let Some(error) = error.filter(|_| !is_error && !has_failed_choice) {
            complaints.push(format!("{file}: reports {:?}", error.message));
        }
        if is_error && error.is_none() {
            complaints.push(format!("{file}: reports no error"));
        }
        let choices = || decoded.messages.iter().flat_map(|message| &message.choices);
        let has_calls = choices().any(|choice| choice.tool_calls().next().is_some());
        if row["has_tool_calls"].as_bool() == Some(true) && !has_calls {
            complaints.push(format!("{file}: no tool calls"));
        }
        let has_reasoning = choices().any(|choice| {
            let is_reasoning = |content: &BlockContent| matches!(content, BlockContent::Reasoning { .. });
            choice.blocks.iter().any(|block| is_reasoning(&block.content))
                || choice.items.iter().any(|item| item.wire_type == "reasoning")
                // Some providers hang their signatures on calls.
                || choice.attachments(AttachmentKind::Signature).next().is_some()
                || format!("{:?}", choice.blocks).to_lowercase().contains("signature")
        });
        // The app-server emits reasoning items that hold nothing at all.
        let may_be_empty = expected == "codex-appserver-v2";
        if row["has_reasoning"].as_bool() == Some(true) && !has_reasoning && !may_be_empty {
            complaints.push(format!("{file}: no reasoning"));
        }
    }
    println!("{seen:?}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Recorded beside responses of another protocol, whose name it was given.
fn is_mislabelled(file: &str) -> bool {
    const STARTS: [&str; 3] = [
        "ollama/prism-structured-with-multiple-tools-structured-mode-",
        "openai-chat/ai-azure-",
        "openai-chat/ai-openai-file-search-tool-",
    ];
    STARTS.iter().any(|start| file.starts_with(start))
}

/// Recorded with its last frame truncated in the middle.
fn is_cut_short(file: &str) -> bool {
    file.ends_with("bedrock-bedrock-broken.eventstream")
}

/// The bodies of failed requests: each has words, and a class that the body shows without the status, too.
#[test]
fn recorded_error_bodies_have_a_class() {
    let Some(corpus) = shared::find("corpus") else { return };
    let index = fs::read_to_string(corpus.join("INDEX.jsonl")).expect("an index");
    let mut count = 0;
    for line in index.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("an index row");
        let status = row["http_status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let Some(status) = status.filter(|status| *status >= 400) else { continue };
        let file = row["file"].as_str().unwrap_or_default();
        let bytes = fs::read(corpus.join(file)).expect("a recorded file");
        let told = read_error(Some(status), [("server", "")], &bytes);
        let alone = read_error(None, [("server", "")], &bytes);
        assert!(told.class != ErrorClass::Other && !told.message.starts_with('{'), "{file}: {told:?}");
        assert_eq!((told.class, &told.message), (alone.class, &alone.message), "{file}");
        count += 1;
    }
    assert!(count > 20, "{count} bodies");
}
