//! `callweave report`, and the rows that `callweave demo` generates.

use crate::{Ran, file, path, run, value};

fn rows(count: &str) -> String {
    run(&["demo", "--rows", count], "").good().stdout().to_owned()
}

fn groups(ran: &Ran) -> Vec<serde_json::Value> {
    ran.stdout().lines().map(value).collect()
}

fn sum(groups: &[serde_json::Value], column: &str) -> u64 {
    groups.iter().filter_map(|group| group[column].as_u64()).sum()
}

#[test]
fn generated_rows_are_the_same_for_every_run() {
    let many = rows("300");
    assert_eq!(many, rows("300"));
    assert!(many.starts_with(&rows("20")));
    let first = value(many.lines().next().expect("a row"));
    assert!(first["id"] == 0 && first["time"].is_i64(), "{first}");
    // Some are damaged on purpose.
    let decoded = run(&["decode", "--jsonl"], &many);
    assert_eq!(decoded.stdout().lines().count(), 300);
}

#[test]
fn every_row_is_counted_once() {
    let rows_file = file("report-rows.jsonl", rows("2000"));
    let report = run(&["report", "--as", "jsonl", path(&rows_file)], "").good();
    let groups = groups(&report);
    assert_eq!(sum(&groups, "responses"), 2000);
    let has = |column: &str, name: &str| groups.iter().any(|group| group[column] == name);
    for outcome in ["native", "from_text", "repaired", "truncated"] {
        assert!(has("outcome", outcome), "{outcome}");
    }
    for class in ["rate_limit", "unknown", "truncated"] {
        assert!(has("error_class", class), "{class}");
    }
    let since =
        |group: &serde_json::Value| group["first"].as_str().is_some_and(|time| time.starts_with("2026-10"));
    assert!(groups.iter().all(since));
    let table = run(&["report", path(&rows_file)], "").good();
    assert!(table.stdout().starts_with("model "), "{}", table.stdout());
    assert!(table.stdout().contains("2000 responses"), "{}", table.stdout());
}

#[test]
fn files_of_a_folder_are_counted_and_requests_left_out() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-folder/deeper");
    std::fs::create_dir_all(&folder).expect("a folder");
    let put = |name: &str, content: &str| std::fs::write(folder.join(name), content).expect("a file");
    let body = r#"{"object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": {"content": "Hi"}}]}"#;
    put("0001-a.answer", body);
    put("0001-a.request.json", r#"{"model": "m", "messages": []}"#);
    put("0002-b.answer", "HTTP/1.1 429 Too Many Requests\r\n\r\n{\"error\": {\"message\": \"not now\"}}");
    let folder = folder.parent().expect("it is in a folder");
    let report = run(&["report", "--as", "jsonl", path(folder)], "").good();
    let groups = groups(&report);
    assert_eq!(sum(&groups, "responses"), 2);
    assert!(groups.iter().any(|group| group["error_class"] == "rate_limit"), "{groups:?}");
    assert!(groups.iter().any(|group| group["model"] == "m" && group["error_class"] == ""), "{groups:?}");
}

#[test]
fn the_page_is_one_file() {
    let rows_file = file("report-page.jsonl", rows("200"));
    let page = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html").display().to_string();
    run(&["report", "--html", &page, path(&rows_file)], "").good();
    let text = std::fs::read_to_string(page).expect("the page");
    assert!(text.starts_with("<!doctype html>") && text.contains("<svg") && !text.contains("src="));
}

#[test]
fn nothing_to_count_is_an_error() {
    let rows_file = file("report-nothing.jsonl", "not JSON\n");
    let report = run(&["report", path(&rows_file)], "");
    assert!(report.stderr().contains("1 lines are no rows"), "{}", report.stderr());
    assert!(!report.0.status.success());
}

#[cfg(feature = "parquet")]
#[test]
fn rows_go_through_parquet() {
    let at = |name: &str| std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string();
    let (raw, decoded) = (at("raw.parquet"), at("decoded.parquet"));
    run(&["demo", "--rows", "1000", "--parquet", &raw], "").good();
    // Rows with an error are in the file, and in the exit code.
    let done = run(&["decode", "--parquet", &decoded, "--repair", &raw], "");
    assert!(done.stderr().contains("of 1000 rows failed"), "{}", done.stderr());
    let of_decoded = run(&["report", "--as", "jsonl", &decoded], "").good();
    let of_raw = run(&["report", "--as", "jsonl", &raw], "").good();
    let lines = file("parquet-rows.jsonl", rows("1000"));
    let of_lines = run(&["report", "--as", "jsonl", path(&lines)], "").good();
    assert_eq!(groups(&of_raw), groups(&of_lines));
    assert_eq!(groups(&of_raw), groups(&of_decoded));
}
