//! Configurations, and the messages for their authors.

use callweave_gateway::config::{Config, Environment, UpstreamConfig};
use callweave_gateway::{Gateway, demo};

use crate::support::{gateway, get, post};

/// Returns the problems of a configuration, a line each.
fn wrong(text: &str) -> Vec<String> {
    let read = Config::read(text);
    read.err().map(|problem| problem.lines().collect()).unwrap_or_default()
}

#[test]
fn every_problem_has_its_line_what_is_allowed_and_what_was_meant() {
    let up = "[upstreams.a]\nbase_url = \"http://h\"\n";
    for (text, parts) in [
        (
            format!("{up}provider = \"mistrl\""),
            &["line 3: upstreams.a.provider: ", "mean \"mistral\"?", "groq"][..],
        ),
        (format!("{up}provider = \"lamacp\""), &["line 3", "mean \"llamacpp\"?", "openai", "deepseek"]),
        (format!("{up}protocol = \"opena\""), &["line 3", "mean \"openai", "anthropic-messages"]),
        (format!("{up}protocol = \"codex-app-server\""), &["line 3", "command = ["]),
        (format!("{up}dialect = \"hermess\""), &["line 3", "mean \"hermes\"?"]),
        (format!("{up}schema = \"validat\""), &["line 3", "mean `validate`?", "`coerce`"]),
        (format!("{up}invalid = \"passs\""), &["line 3", "mean `pass`?"]),
        (format!("{up}retrys = 3"), &["line 3", "mean `retries`?"]),
        (format!("{up}api_key = \"sk-x\""), &["line 3", "key_env"]),
        (format!("{up}api_key_env = \"\""), &["line 3", "environment variable"]),
        (format!("{up}retries = 4294967295"), &["line 3", "from 0 to 100"]),
        (format!("{up}retries = -1"), &["line 3"]),
        ("[upstreams.a]\nbase_url = \"http://\"".to_owned(), &["line 2: upstreams.a.base_url: "]),
        ("[upstreams.a]\nbase_url = \"http://h h/\"".to_owned(), &["line 2"]),
        ("[upstreams.a]\nbase_url = \"http://h:99999\"".to_owned(), &["line 2", "port"]),
        ("[upstreams.a]\nbase_url = \"http://:80\"".to_owned(), &["line 2"]),
        (
            "[upstreams.a]\nbase_url = \"localhost:8000\"".to_owned(),
            &["line 2", "mean \"http://localhost:8000\"?"],
        ),
        ("[upstreams.a]\nprotocol = \"ollama\"".to_owned(), &["line 1: upstreams.a.base_url: ", "missing"]),
        ("\n[upstreams.\"a/b\"]\nbase_url = \"http://h\"".to_owned(), &["line 2", "no /"]),
        (format!("default_upstream = \"b\"\n{up}"), &["line 1: default_upstream: ", "\"b\"", "known: a"]),
        ("default_upstream = \"demo\"".to_owned(), &["line 1", "demo = true"]),
        (
            format!("{up}[[models]]\nname = \"m\"\nupstream = \"aa\""),
            &["line 5: models.0.upstream", "mean \"a\"?"],
        ),
        (
            format!(
                "{up}[[models]]\nname = \"model\"\nupstream = \"a\"\nfallbacks = [\n\"model\",\n\"mdel\"]"
            ),
            &["line 8: models.0.fallbacks.1", "mean \"model\"?", "a/MODEL"],
        ),
        (
            format!("{up}[[models]]\nname = \"m\"\nupstream = \"a\"\nfallbacks = [\"demo/hermes\"]"),
            &["line 6", "demo = true"],
        ),
        (
            "demo = true\n[[models]]\nname = \"m\"\nupstream = \"demo\"\nmodel = \"hermess\"".to_owned(),
            &["line 5", "mean \"hermes\"?"],
        ),
        ("[limits]\nconcurrent = 0".to_owned(), &["line 2: limits.concurrent: 0 is not from 1 to "]),
        ("[limits]\nconcurrent = 9223372036854775807".to_owned(), &["line 2", "from 1 to "]),
        ("[limits]\nbody = 0".to_owned(), &["line 2"]),
        ("[limits]\ndecompressed = 9223372036854775807".to_owned(), &["line 2"]),
        ("[limits]\nresponse = 0".to_owned(), &["line 2"]),
        ("[limits]\narguments = 0".to_owned(), &["line 2"]),
        ("[limits]\nheaders = 100000000".to_owned(), &["line 2"]),
        (
            "[timeouts]\nkeep_alive = 0".to_owned(),
            &["line 2: timeouts.keep_alive: 0 seconds are not from 0.1 to "],
        ),
        ("[timeouts]\nidle = 0".to_owned(), &["line 2"]),
        ("[timeouts]\nrequest = 1e300".to_owned(), &["line 2"]),
        ("[timeouts]\nconnect = 1e15".to_owned(), &["line 2", "31536000"]),
        ("[timeouts]\nfirst_byte = nan".to_owned(), &["line 2"]),
        ("[timeouts]\nidle = -1".to_owned(), &["line 2"]),
        ("listen = \"nowhere\"".to_owned(), &["line 1", "127.0.0.1:2255"]),
        ("\nport = 81".to_owned(), &["line 2", "listen"]),
        ("client_keys = [\n\"sha256:ZZ\"]".to_owned(), &["line 2: client_keys.0", "sha256sum"]),
        ("allowed_hosts = [\"http://gw\"]".to_owned(), &["line 1: allowed_hosts.0", "mean \"gw\"?"]),
        (
            "allowed_origins = [\"app.example\"]".to_owned(),
            &["line 1: allowed_origins.0", "mean \"https://app.example\"?"],
        ),
        ("ca_file = 7".to_owned(), &["line 1"]),
        ("listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"".to_owned(), &["line 2", "duplicate key"]),
    ] {
        let [line] = &wrong(&text)[..] else { panic!("{text}: {:?}", wrong(&text)) };
        for part in parts {
            assert!(line.contains(part), "{part:?} in {line}");
        }
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "lissten = 1\nallow_open = 3\ndefault_upstream = \"b\"\n[upstreams.a]\nbase_url = \"http://\"\nprovider = \"nobody\"\nbodi = 2\n[limits]\nbody = 0\nconcurrent = \"many\"\n[[models]]\nname = \"x\"\n";
    let told = wrong(text);
    let row = "[[models]]\nname = \"a\"\nupstream = \"b\"\nfallbacks = [\"a\"]";
    assert_eq!(wrong(row).len(), 1, "{:?}", wrong(row));
    for (line, part) in [
        (1, "lissten"),
        (2, "boolean"),
        (3, "\"b\""),
        (5, "http://"),
        (6, "nobody"),
        (7, "bodi"),
        (9, "limits.body"),
        (10, "usize"),
        (11, "upstream"),
    ] {
        let found = told.iter().find(|told| told.starts_with(&format!("line {line}: ")));
        assert!(found.is_some_and(|told| told.contains(part)), "{line} {part}: {told:#?}");
    }
    assert_eq!(told.len(), 9, "{told:#?}");
}

#[test]
fn the_words_of_others_are_understood() {
    let config = Config::read("listen = 81\n[upstreams.a]\nbase_url = \"http://h\"\napi_key_env = \"K\"")
        .expect("valid");
    assert_eq!(
        (config.upstreams["a"].base_url.as_str(), config.upstreams["a"].api_key_env.as_deref()),
        ("http://h", Some("K"))
    );
    assert_eq!(config.listen.to_string(), "127.0.0.1:81");
}

#[test]
fn nobody_asks_itself() {
    let up = |url: &str| format!("[upstreams.a]\nbase_url = \"{url}\"");
    for url in ["http://127.0.0.1:2255", "http://localhost:2255/v1", "http://0.0.0.0:2255/v1"] {
        let [line] = &wrong(&up(url))[..] else { panic!("{url}") };
        assert!(
            line.starts_with("line 2: upstreams.a.base_url: ") && line.contains("this gateway itself"),
            "{line}"
        );
    }
    // The address that counts is the one that it listens on in the end.
    let mut config = Config::read(&up("http://127.0.0.1:8080")).expect("valid");
    config.listen.set_port(8080);
    let refused = Gateway::new(config, &Environment::of(|_| None)).err().expect("it would ask itself");
    assert!(refused.to_string().contains("line 2"), "{refused}");
    let mut config =
        Config::with_upstream(UpstreamConfig::at("http://[::1]:9", &callweave::protocol::OLLAMA));
    config.listen = "[::]:9".parse().expect("an address");
    config.allow_open = true;
    assert!(Gateway::new(config, &Environment::of(|_| None)).is_err());
}

#[test]
fn variables_are_checked_as_well() {
    let environment = Environment::of(|name| (name == "PROXY_STOP_AFTER_TOOLS").then(|| "treu".to_owned()));
    let refused = Gateway::new(environment.config(), &environment).err().expect("no truth");
    assert!(refused.to_string().contains("PROXY_STOP_AFTER_TOOLS: \"treu\""), "{refused}");
    for (variable, value) in [("OPENAI_BASE_URL", "api.example"), ("OLLAMA_HOST", "http://")] {
        let environment = Environment::of(|name| (name == variable).then(|| value.to_owned()));
        let refused = Gateway::new(environment.config(), &environment).err().expect("no URL").to_string();
        assert!(refused.starts_with(variable), "{refused}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_told_before_anything_is_served() {
    for folder in ["/dev/null/x", "/dev/null"] {
        let config = Config::read(&format!("\nrecord = \"{folder}\"")).expect("valid");
        let refused = Gateway::new(config, &Environment::of(|_| None)).err().expect("no folder").to_string();
        assert!(refused.starts_with("line 2: record: /dev/null"), "{refused}");
    }
}

#[test]
fn keys_under_their_old_names_are_read_with_a_warning() {
    let text = "[limits]\nanswer = 7\n[timeouts]\nanswer = 8\n[store]\nanswers = 9";
    let config = Config::read(text).expect("valid");
    let seconds = config.timeouts.response.as_secs();
    assert_eq!((config.limits.response, seconds, config.store.responses), (7, 8, 9));
    let gateway = Gateway::new(config, &Environment::of(|_| None)).expect("a gateway");
    let warnings = gateway.warnings().join("\n");
    for renamed in [
        "line 2: limits.response: answer is called response now",
        "line 4: timeouts.response: answer is called response now",
        "line 6: store.responses: answers is called responses now",
    ] {
        assert!(warnings.contains(renamed), "{warnings}");
    }
}

#[tokio::test]
async fn what_is_doubtful_is_told_with_its_line_and_without_secrets() {
    let text = "[upstreams.a]\nurl = \"http://user:PASSWORD@127.0.0.1:9/v1?key=QKEY\"\nkey_env = \"NOPE\"";
    let gateway =
        Gateway::new(Config::read(text).expect("valid"), &Environment::of(|_| None)).expect("a gateway");
    let warnings = gateway.warnings().join("\n");
    assert!(warnings.contains("line 3: upstreams.a.api_key_env: NOPE is not set"), "{warnings}");
    // Both stand there under their old names.
    for renamed in
        ["line 2: upstreams.a.base_url: url is called base_url now", "key_env is called api_key_env now"]
    {
        assert!(warnings.contains(renamed), "{warnings}");
    }
    let explained = gateway.explain();
    assert!(
        explained.contains("http://127.0.0.1:9/v1?key=…")
            && explained.contains(&warnings.lines().next().expect("one").to_owned()),
        "{explained}"
    );
    assert!(explained.contains("listens on 127.0.0.1:2255, for this machine only"), "{explained}");
    let probes = format!("{:?}", gateway.probe().await);
    let got = post(&gateway, "/v1/chat/completions", &crate::support::chat("a/x", false)).await;
    for text in [&warnings, &explained, &probes, &got.text] {
        assert!(!text.contains("PASSWORD") && !text.contains("QKEY") && !text.contains("user:"), "{text}");
    }
    // The problem with a wrong URL is reported without them, too.
    let wrong = wrong("[upstreams.a]\nbase_url = \"http://user:PASSWORD@h:99999/?key=QKEY\"").join("\n");
    assert!(wrong.contains("h:99999") && !wrong.contains("PASSWORD") && !wrong.contains("QKEY"), "{wrong}");
}

#[tokio::test]
async fn scripted_models_are_served_only_where_somebody_asks_for_them() {
    let configured = |text: &str, environment: Environment<'_>| {
        Gateway::new(Config::read(text).expect("valid"), &environment).expect("a gateway")
    };
    let text = "[upstreams.a]\nbase_url = \"http://127.0.0.1:9\"\nmodels = [\"m\"]";
    let listed = |text: String| -> Vec<String> {
        let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let names = list["data"].as_array().expect("a list").iter();
        names.map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
    };
    let own = configured(text, Environment::of(|_| None));
    assert_eq!(listed(get(&own, "/v1/models").await.text), ["a/m"]);
    let got = post(&own, "/v1/chat/completions", &crate::support::chat("demo/hermes", false)).await;
    assert_eq!(got.status, 404, "{}", got.text);
    let asked = configured(&format!("demo = true\n{text}"), Environment::of(|_| None));
    assert_eq!(listed(get(&asked, "/v1/models").await.text).len(), demo::models().count() + 1);
    let got = post(&asked, "/v1/chat/completions", &crate::support::chat("demo/hermes", false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert!(
        !Config::with_upstream(UpstreamConfig::at("http://h", &callweave::protocol::OLLAMA))
            .upstreams
            .contains_key("demo")
    );
    // An upstream that is one by its URL is one.
    assert_eq!(
        get(&gateway("[upstreams.mine]\nbase_url = \"demo:\""), "/v1/models/mine/hermes").await.status,
        200
    );
}
