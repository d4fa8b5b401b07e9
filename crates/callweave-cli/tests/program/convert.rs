//! Responses written in another protocol.

use serde_json::Value;

use crate::{clean, run, sample};

#[test]
fn google_streams_as_events_or_as_one_array() {
    let events = run(&["convert", "--to", "gemini", "--stream"], clean()).good();
    let array = run(&["convert", "--to", "gemini", "--array"], clean()).good();
    let told: Vec<Value> = events
        .stdout()
        .split_terminator("\n\n")
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").expect("an event")).expect("JSON"))
        .collect();
    assert_eq!(array.json(), Value::from(told));
    let asked = run(&["convert", "--to", "gemini", "--array", "--complete"], clean());
    assert!(asked.stderr().contains("--complete"), "{}", asked.stderr());
}

/// A truncated response is not taken for one that a limit ended, let alone for a complete one.
#[test]
fn what_was_cut_off_is_an_error_in_every_protocol() {
    let chunk = r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"Hal"}}]}"#;
    let cut = format!("{chunk}\n\n");
    for to in ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "cohere", "bedrock-invoke"]
    {
        for form in ["--stream", "--complete"] {
            let written = run(&["convert", "--normalize", "--to", to, form], cut.as_str()).bad("was cut off");
            let read = run(&["decode", "--protocol", to], &written.0.stdout);
            let message = read.json();
            assert_eq!(message["errors"][0]["class"], "transport", "{to} {form}: {message}");
            assert_eq!(message["content"], "Hal", "{to} {form}: {message}");
        }
    }
    // In its own protocol it is written as it came.
    let own = run(&["convert", "--to", "openai-chat"], cut.as_str()).bad("was cut off");
    assert!(!own.stdout().contains("error") && !own.stdout().contains("length"), "{}", own.stdout());
}

/// Calls written for clients of another protocol can be run, and then nothing is wrong with them.
#[test]
fn broken_arguments_are_repaired_for_clients_and_kept_in_their_own_protocol() {
    for to in ["anthropic", "openai-responses", "gemini", "ollama", "cohere", "bedrock"] {
        for form in ["--stream", "--complete"] {
            let written = run(&["convert", "--to", to, form], sample()).good();
            let read = run(&["decode", "--protocol", to], &written.0.stdout).good().json();
            let arguments = read["tool_calls"][1]["arguments"].as_str().expect("arguments");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            assert_eq!(
                (&arguments["city"], &arguments["units"]),
                (&"Tromsø".into(), &"metric".into()),
                "{to} {form}"
            );
        }
    }
    let own = run(&["convert", "--to", "openai-chat", "--complete"], sample()).bad("--repair fixes it");
    assert!(own.stdout().contains("{city: 'T") && own.stdout().contains("polar"), "{}", own.stdout());
    run(&["convert", "--to", "openai-chat", "--normalize"], sample()).good();
    run(&["convert", "--to", "openai-chat", "--repair"], sample()).good();
}

/// Clients keep responses by their ids, and say when they came.
#[test]
fn responses_without_an_id_get_one_of_their_own() {
    let body =
        r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}]}"#;
    for (to, prefix, time) in [
        ("openai-chat", "chatcmpl-", Some("created")),
        ("openai-responses", "resp_", Some("created_at")),
        ("anthropic-messages", "msg_", None),
    ] {
        let written = || run(&["convert", "--to", to, "--complete"], body).good().json();
        let [one, two] = [written(), written()];
        let id = |body: &Value| body["id"].as_str().expect("an id").to_owned();
        assert!(id(&one).starts_with(prefix) && id(&one).len() > prefix.len() + 16, "{one}");
        assert_ne!(id(&one), id(&two));
        let made = time.map(|time| one[time].as_u64().expect("a time"));
        assert!(made.is_none_or(|made| made > 1_700_000_000), "{one}");
    }
    // The provider's own stay.
    let body = r#"{"id":"c1","object":"chat.completion","created":123,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"content":"Hi"}}]}"#;
    for form in ["--stream", "--complete"] {
        let written = run(&["convert", "--to", "openai-chat", "--normalize", form], body).good();
        assert!(written.stdout().contains(r#""id":"c1""#) && written.stdout().contains(r#""created":123"#));
    }
}

#[test]
fn old_spellings_are_understood_and_say_the_new_one() {
    let to = ["convert", "--to", "openai-chat"];
    let new = run(&[&to[..], &["--complete", "--normalize"]].concat(), sample()).good();
    let old = run(&[&to[..], &["--whole", "--mend"]].concat(), sample()).fine();
    assert_eq!(old.json()["choices"], new.json()["choices"]);
    assert!(new.stderr().is_empty(), "{}", new.stderr());
    for renamed in ["warning: --mend is called --normalize now", "warning: --whole is called --complete now"]
    {
        assert!(old.stderr().contains(renamed), "{}", old.stderr());
    }
    let taught = run(&["prompt", "-"], r#"[{"name": "look"}]"#).fine();
    assert!(taught.stderr().contains("warning: prompt is called teach now"), "{}", taught.stderr());
}
