//! Help, completions, the manual page and the tables.

use crate::{program, run};

/// The commands that the program lists.
fn commands() -> Vec<String> {
    let help = run(&["--help"], "").good();
    let after = help.stdout().split("Commands:\n").nth(1).expect("a list of commands").to_owned();
    after
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_has_help_with_examples() {
    let commands = commands();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let help = run(&[&command, "--help"], "").good();
        assert!(help.stdout().contains(&format!("Usage: callweave {command}")), "{command}");
        let examples = help.stdout().split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{command}"));
        assert!(examples.lines().next().is_some_and(|line| line.contains("callweave")), "{command}");
    }
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell], "").good();
        assert!(script.stdout().contains("decode"), "{shell}");
    }
    assert!(run(&["completions", "bash"], "").stdout().contains("anthropic-messages"));
}

#[test]
fn the_manual_has_a_page_for_the_program_and_for_each_command() {
    assert!(run(&["man"], "").good().stdout().contains(".TH callweave 1"));
    for command in commands() {
        let page = run(&["man", &command], "").good();
        assert!(page.stdout().contains("Examples"), "{command}");
    }
    run(&["man", "nothing"], "").bad("there is no command nothing");
}

#[test]
fn protocols_are_listed_as_json_when_piped() {
    let rows = run(&["protocols"], "").good().lines();
    assert!(rows.iter().any(|row| row["name"] == "anthropic-messages"));
    assert!(rows.iter().all(|row| row["title"].is_string() && row["aliases"].is_array()));
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = program(&[]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: callweave"));
}
