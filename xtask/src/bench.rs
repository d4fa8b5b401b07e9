//! callweave beside its peers: builds the bench crate as callweave is shipped, runs it, and shows what it measured; as
//! the page `docs/performance.md`, too.

mod document;
mod plot;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::check::{cargo, succeed, told};
use crate::{root, target};

/// `cargo xtask bench [--json] [--write] [--rounds N] [--megabytes N] [--only TEXT]`
pub(crate) fn run(flags: &[&str]) -> Result<(), String> {
    let (own, rest): (Vec<&str>, Vec<&str>) =
        flags.iter().partition(|flag| ["--json", "--write"].contains(flag));
    if own.contains(&"--write") && rest.contains(&"--only") {
        return Err("a page of some rows would say that nothing else was measured".into());
    }
    let build = ["build", "--quiet", "--profile", "bench", "-p", "callweave-bench", "-p", "callweave-cli"];
    let programs = ["--bin", "callweave-bench", "--bin", "callweave"];
    succeed(Command::new(cargo()).args(build).args(programs).current_dir(root()))?;
    let built = target().join("release");
    let mut child = Command::new(built.join("callweave-bench"))
        .arg("--program")
        .arg(built.join("callweave"))
        .args(rest)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("callweave-bench: {error}"))?;
    let mut rows = Vec::new();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let line = line.map_err(|error| format!("callweave-bench: {error}"))?;
        let row: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        if own.contains(&"--json") {
            println!("{line}");
        } else {
            println!("{}", shown(&row, rows.last()));
        }
        rows.push(row);
    }
    let status = child.wait().map_err(|error| format!("callweave-bench: {error}"))?;
    if !status.success() {
        return Err(format!("callweave-bench ended with {status}"));
    }
    if own.contains(&"--write") {
        let (page, picture) = (root().join("docs/performance.md"), root().join("docs/performance.svg"));
        std::fs::write(&page, document::page(&rows)).map_err(told(&page))?;
        std::fs::write(&picture, plot::picture(&rows)).map_err(told(&picture))?;
        eprintln!("wrote {} and its picture", page.display());
    }
    Ok(())
}

/// A row of the table, below the title of its group if that is a new one.
fn shown(row: &Value, before: Option<&Value>) -> String {
    let mut text = String::new();
    if before.is_none_or(|before| before["group"] != row["group"]) {
        text = format!(
            "\n{:<76}{:>10}{:>12}{:>8}{:>8}{:>14}\n",
            row["group"].as_str().unwrap_or_default(),
            "ns",
            "best peer",
            "ratio",
            "median",
            "instructions"
        );
    }
    let number = |key: &str| row[key].as_f64().map_or(String::new(), figure);
    let peer = best_peer(row).map_or(String::new(), |(_, time)| figure(time));
    let name = format!("{}, per {}", word(row, "name"), word(row, "unit"));
    let [ours, ratio, median, count] = ["ours_ns", "ratio", "median_ratio", "instructions"].map(number);
    text += &format!("{name:<76}{ours:>10}{peer:>12}{ratio:>8}{median:>8}{count:>14}");
    if let Some(bytes) = row["bytes"].as_f64() {
        text += &format!("  {} bytes", figure(bytes));
    }
    if let (Some(aim), Some(is_met)) = (aim(row), row["met"].as_bool()) {
        text += &format!("  {} {aim}", if is_met { "ok" } else { "MISSED" });
    }
    text
}

fn word<'r>(row: &'r Value, key: &str) -> &'r str {
    row[key].as_str().unwrap_or_default()
}

/// The peer that takes the least, and how much: nanoseconds, or instructions where those were compared.
fn best_peer(row: &Value) -> Option<(&str, f64)> {
    let key = if row["ours_ns"].is_null() { "peers_instructions" } else { "peers" };
    let peers = row[key].as_object()?.iter().filter_map(|(name, time)| Some((name.as_str(), time.as_f64()?)));
    peers.min_by(|one, other| one.1.total_cmp(&other.1))
}

/// Returns the aim of a row, in words.
fn aim(row: &Value) -> Option<String> {
    let (kind, value) = row["aim"].as_object()?.iter().next()?;
    let value = value.as_f64()?;
    Some(match kind.as_str() {
        "ratio" => format!("≥ {}x", figure(value)),
        kind => format!("≤ {} {kind}", figure(value)),
    })
}

/// Three digits are enough for anything that was measured.
fn figure(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(size: &str, ours: f64, aim: Option<f64>) -> Value {
        json!({
            "group": "Streams", "name": format!("chat {size}, an event per read"), "unit": "chunk", "ours_ns": ours,
            "peers": {"memchr + jiter": 500.0, "memchr + serde_json": 501.0}, "ratio": 500.0 / ours, "median_ratio": null,
            "instructions": 400, "bytes": null, "target": aim.map(|_| 1), "aim": aim.map(|aim| json!({"ratio": aim})),
            "met": aim.map(|aim| 500.0 / ours >= aim), "notes": ["not raced: a peer: the text is another"],
        })
    }

    #[test]
    fn a_target_is_met_by_all_its_rows_or_not() {
        let (met, missed) = (row("1k", 50.0, Some(8.0)), row("10k", 100.0, Some(8.0)));
        let page = document::page(&[met.clone(), missed.clone()]);
        assert!(page.contains("chat 10k, an event per read: 5x (≥ 8x) | 1 of 2 rows |"));
        assert!(page.contains("| 500 ns (memchr + jiter) | 5x |"));
        assert!(document::page(std::slice::from_ref(&met)).contains("10x (≥ 8x) | yes |"));
        assert!(
            shown(&met, None).ends_with("ok ≥ 8x") && shown(&missed, Some(&met)).ends_with("MISSED ≥ 8x")
        );
    }

    #[test]
    fn names_of_lines_that_meet_stand_apart() {
        let picture =
            plot::picture(&[row("1k", 50.0, None), row("10k", 50.0, None), row("100k", 50.0, None)]);
        let height = |name: &str| {
            let line = picture.lines().find(|line| line.contains(&format!(">{name} 50"))).expect("a label");
            let (_, rest) = line.rsplit_once(" y=\"").expect("a place");
            rest.split('"').next().and_then(|y| y.parse::<f64>().ok()).expect("a number")
        };
        assert!((height("memchr + jiter") - height("memchr + serde_json")).abs() > 14.0);
        // Two panels have no rows.
        assert_eq!(picture.matches("not measured").count(), 2);
        assert_eq!(picture.matches("<svg").count(), picture.matches("</svg>").count());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([1234.5, 99.96, 12.34, 5.0, 0.5].map(figure), ["1234", "100", "12.3", "5", "0.5"]);
    }
}
