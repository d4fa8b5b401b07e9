//! The manual says what there is, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeSet;

use callweave::protocol::TABLE;
use callweave_gateway::config::{Config, Environment};

use crate::support::{chat, gateway, get, post};

const MANUAL: &str = include_str!("../../../../docs/gateway.md");

/// The example of a configuration, with what is commented out in force.
fn example() -> String {
    let rest = MANUAL.split_once("## Configuration").expect("a chapter").1;
    let block = rest.split_once("```toml\n").expect("an example").1;
    let block = block.split_once("```").expect("an end").0;
    let line = |line: &str| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n";
    block.lines().map(line).collect()
}

/// The keys of a table, as the reader of configurations lists them in the error about a misspelt one.
fn keys(table: &str) -> BTreeSet<String> {
    let problem = Config::read(&format!("{table}\nmisspelt = 1")).expect_err("a typo").to_string();
    let (_, names) = problem.split_once("expected one of ").unwrap_or_else(|| panic!("{problem}"));
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_key_is_in_the_example_or_in_a_table() {
    let example = example();
    for (head, table) in [
        ("", ""),
        ("[upstreams.", "[upstreams.x]\nbase_url = \"http://h\""),
        ("[[models]]", "[[models]]\nname = \"a\"\nupstream = \"b\""),
        ("[limits]", "[limits]"),
        ("[timeouts]", "[timeouts]"),
        ("[store]", "[store]"),
    ] {
        let mut is_within = head.is_empty();
        let mut told = BTreeSet::new();
        for line in example.lines() {
            if line.starts_with('[') {
                is_within = !head.is_empty() && line.starts_with(head);
            }
            if let Some((key, _)) = line.split_once(" = ").filter(|_| is_within) {
                told.insert(key.trim().to_owned());
            }
        }
        let keys = keys(table);
        // Tables of their own, and the keys of the chapter about stopping.
        let is_elsewhere = |key: &&String| {
            example.contains(&format!("[{key}]"))
                || example.contains(&format!("[{key}."))
                || MANUAL.contains(&format!("| `{key}` |"))
        };
        let untold: Vec<_> = keys.difference(&told).filter(|key| !is_elsewhere(key)).collect();
        assert!(untold.is_empty(), "{head}: {untold:?} are not in the manual");
        let unknown: Vec<_> = told.difference(&keys).collect();
        assert!(unknown.is_empty(), "{head}: {unknown:?} are not there");
    }
}

#[test]
fn the_example_can_be_read_and_tells_the_defaults() {
    let config = Config::read(&example()).unwrap_or_else(|problem| panic!("{problem}"));
    let usual = Config::read("[upstreams.local]\nbase_url = \"http://127.0.0.1:8000/v1\"").expect("valid");
    let table =
        |config: &Config| format!("{:?}", (&config.limits, &config.timeouts, &config.store, config.listen));
    assert_eq!(table(&config), table(&usual));
    let (told, own) = (&config.upstreams["local"], &usual.upstreams["local"]);
    let choices = |upstream: &callweave_gateway::config::UpstreamConfig| {
        let own = (upstream.spoken()[0].name, &upstream.dialect, upstream.splits_reasoning(), upstream.tools);
        format!(
            "{own:?} {:?} {:?}",
            (upstream.repair, upstream.schema, upstream.invalid, upstream.reask, upstream.retries),
            (upstream.retry_share, upstream.retry_broken)
        )
    };
    assert_eq!(choices(told), choices(own));
}

#[test]
fn every_protocol_of_an_upstream_is_told() {
    for protocol in TABLE {
        let config = format!("[upstreams.x]\nbase_url = \"http://h\"\nprotocol = \"{}\"", protocol.name);
        let is_told =
            example().lines().any(|line| line.starts_with("protocol =") && line.contains(protocol.name));
        assert_eq!(Config::read(&config).is_ok(), is_told, "{}", protocol.name);
    }
}

/// The table of providers, as the code has it.
fn providers() -> String {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let mut table = "| `provider` | also | protocols | key | base URL |\n|---|---|---|---|---|\n".to_owned();
    for provider in callweave::provider::TABLE.iter().filter(|provider| !provider.protocols.is_empty()) {
        let protocols: Vec<&str> = provider.protocols.iter().map(|protocol| protocol.name).collect();
        let key = provider.key_variable.map_or(String::new(), |name| format!("`{name}`"));
        let home = provider.base_url.map_or(String::new(), |url| format!(", else {url}"));
        let url = provider.base_url_variable.map_or(String::new(), |name| format!("`{name}`{home}"));
        let cells = [quoted(&[provider.name]), quoted(provider.aliases), protocols.join(", "), key, url];
        table += &format!(
            "|{}\n",
            cells.map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") }).concat()
        );
    }
    table
}

#[test]
fn every_provider_is_told() {
    let table = providers();
    assert!(MANUAL.contains(&table), "the manual should have\n{table}");
}

#[test]
fn every_provider_can_be_named_and_no_other_can() {
    let with =
        |name: &str| Config::read(&format!("[upstreams.x]\nbase_url = \"http://h\"\nprovider = {name:?}"));
    for provider in callweave::provider::TABLE {
        for name in std::iter::once(&provider.name).chain(provider.aliases) {
            assert_eq!(with(name).is_ok(), !provider.protocols.is_empty(), "{name}");
        }
    }
    let problem = with("vlm").expect_err("no provider").to_string();
    assert!(problem.contains("did you mean \"vllm\"?") && problem.contains("lmstudio"), "{problem}");
}

#[tokio::test]
async fn every_variable_and_every_metric_is_told() {
    let asked = RefCell::new(BTreeSet::new());
    let environment = Environment::of(|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    let _ = callweave_gateway::Gateway::new(environment.config(), &environment).expect("a gateway");
    let asked = asked.borrow().clone();
    assert!(asked.contains("PROXY_STOP_AFTER_TOOLS") && asked.contains("OPENAI_API_KEY"), "{asked:?}");
    let untold: Vec<_> = asked.iter().filter(|name| !MANUAL.contains(&format!("`{name}`"))).collect();
    assert!(untold.is_empty(), "{untold:?} are not in the manual");
    let gateway = gateway("");
    post(&gateway, "/v1/chat/completions", &chat("demo/hermes", true)).await;
    let text = get(&gateway, "/metrics").await.text;
    let names = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let untold: Vec<_> = names.filter(|name| !MANUAL.contains(&format!("`{name}"))).collect();
    assert!(untold.is_empty(), "{untold:?} are not in the manual");
}
