//! Everything that is written for another provider keeps its rules.

use std::collections::BTreeMap;

use callweave::protocol::TABLE;
use callweave::request::{RequestMode, RequestOptions};

use super::rules::{PROVIDERS, RULES};
use super::{own, protocol, recorded, written};

#[test]
fn what_is_written_for_another_provider_keeps_its_rules() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for (name, rules) in RULES {
            let target = protocol(name).expect("a protocol with requests");
            if target == sample.protocol {
                continue;
            }
            let written = written(target, &request, &RequestOptions::default());
            let mut violations = Vec::new();
            rules(&written.body, &mut violations);
            count += 1;
            for violation in violations {
                found.entry(format!("{name}: {violation}")).or_default().push(sample.title.clone());
            }
        }
    }
    println!("{count} translations keep their rules");
    let lines: Vec<String> = found
        .iter()
        .map(|(what, titles)| format!("{what}: {} bodies, such as {}", titles.len(), titles[0]))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn what_is_written_for_a_provider_of_anothers_protocol_keeps_its_rules() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for (provider, rules) in PROVIDERS {
            let mut options = RequestOptions::default();
            options.provider = Some((*provider).to_owned());
            options.mode = RequestMode::Normalized;
            let written = written(chat, &request, &options);
            let mut violations = Vec::new();
            rules(&written.body, &mut violations);
            assert!(violations.is_empty(), "{} for {provider}: {violations:?}", sample.title);
        }
    }
}

#[test]
fn every_protocol_with_requests_has_rules() {
    let with_requests = TABLE.iter().filter(|protocol| protocol.has_requests());
    for protocol in with_requests {
        assert!(RULES.iter().any(|(name, _)| *name == protocol.name), "{}", protocol.name);
    }
}
