//! The report as one page: nothing is loaded from elsewhere, and nothing runs.

use std::fmt::Write;

use super::plot::{escape, grouped, look};
use super::{COLUMNS, NUMBERS, TrafficReport, cells};

const STYLE: &str = "\
body{font:14px/1.45 system-ui,sans-serif;color:#1d2733;margin:2rem auto;max-width:66rem;padding:0 1rem}\
svg{max-width:100%;height:auto}\
table{border-collapse:collapse;width:100%;margin-top:1.5rem;font-size:12px}\
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #e3e7ec;white-space:nowrap}\
th{position:sticky;top:0;background:#fff}\
.n{text-align:right;font-variant-numeric:tabular-nums}\
i{display:inline-block;width:.7em;height:.7em;margin-right:.4em}\
.t{overflow-x:auto}";

pub(super) fn html(report: &TrafficReport) -> String {
    let groups = report.groups();
    let times = groups.iter().flat_map(|(_, counts)| [counts.first, counts.last]).flatten();
    let span = match (times.clone().min(), times.max()) {
        (Some(first), Some(last)) => {
            format!(", {} to {}", &super::timestamp(first)[..10], &super::timestamp(last)[..10])
        }
        _ => String::new(),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>callweave report</title>\
         <style>{STYLE}</style></head><body>\n<h1>Recorded responses</h1>\n<p>{} responses, {} calls{span}.</p>\n{}",
        grouped(report.responses()),
        grouped(report.calls()),
        report.to_svg()
    );
    out.push_str("<div class=\"t\"><table><thead><tr>");
    for (at, column) in COLUMNS.iter().enumerate() {
        let class = if NUMBERS.contains(&at) { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th{class}>{column}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for (key, counts) in groups {
        out.push_str("<tr>");
        for (at, cell) in cells(key, counts).iter().enumerate() {
            let (colour, _) = look(&key.outcome);
            let mark = if at == 3 { format!("<i style=\"background:{colour}\"></i>") } else { String::new() };
            let class = if NUMBERS.contains(&at) { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{mark}{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n<p>A response counts for its worst call, a call for itself.</p>\n</body></html>\n");
    out
}
