//! The address of an upstream: under its base URL, and nowhere else.

use serde_json::json;

use crate::scripted_upstream::{Far, answered, whole};
use crate::support::{chat, gateway, post};

#[tokio::test]
async fn a_name_never_leads_to_another_path_of_an_upstream() {
    for protocol in ["gemini-generatecontent", "bedrock-converse"] {
        let far =
            Far::start(vec![whole(404, &json!({"error": {"message": "no", "status": "NOT_FOUND"}})); 2])
                .await;
        let gateway = far.gateway(&format!("protocol = \"{protocol}\"\nretries = 0"));
        for name in [
            "../../admin/keys",
            "far/../../admin",
            "x/./y",
            "%2e%2e/x",
            "..%2f..",
            "%252e%252e%252fx",
            "a\\..\\b",
            "..",
        ] {
            for is_streamed in [true, false] {
                let got = post(&gateway, "/v1/chat/completions", &chat(name, is_streamed)).await;
                assert_eq!(got.status, 400, "{name}: {}", got.text);
                assert!(
                    got.json()["error"]["message"]
                        .as_str()
                        .is_some_and(|it| it.contains("cannot be asked for")),
                    "{}",
                    got.text
                );
            }
        }
        for path in [
            "/v1beta/models/far%2F..%2F..%2Fadmin:generateContent",
            "/v1beta/models/far%2F%252e%252e:countTokens",
        ] {
            let got = post(&gateway, path, &json!({"contents": [{"parts": [{"text": "hi"}]}]})).await;
            // An upstream that cannot count is not asked.
            let is_estimate = protocol == "bedrock-converse" && path.ends_with("countTokens");
            assert_eq!(got.status, if is_estimate { 200 } else { 400 }, "{path}: {}", got.text);
        }
        assert!(far.seen().is_empty(), "{:?}", far.seen());
        post(&gateway, "/v1/chat/completions", &chat("org/model-1.5", false)).await;
        assert!(far.seen()[0].contains("/org/model-1.5"), "{:?}", far.seen());
    }
}

#[tokio::test]
async fn the_query_of_a_base_url_stays_behind_the_path() {
    let far = Far::start(vec![whole(200, &answered("hi")); 2]).await;
    let config = format!(
        "[upstreams.far]\nbase_url = \"{}/v1?key=QKEY\"",
        far.url.replace("http://", "http://user:PASSWORD@")
    );
    let gateway = gateway(&config);
    let got = post(&gateway, "/v1/chat/completions", &chat("far/x", false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    crate::support::get(&gateway, "/v1/models").await;
    assert!(far.seen()[0].starts_with("POST /v1/chat/completions?key=QKEY HTTP/1.1\r\n"), "{:?}", far.seen());
    assert!(far.seen()[1].starts_with("GET /v1/models?key=QKEY HTTP/1.1\r\n"), "{:?}", far.seen());
    assert!(!far.seen().concat().contains("PASSWORD"));
}
