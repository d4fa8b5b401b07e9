//! The plot: for each model the shares of outcomes, and what happened day by day.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{DAY, OUTCOMES, TrafficReport, printable, rank, timestamp};

const WIDTH: f64 = 960.0;
/// The room for the names of models.
const LEFT: f64 = 210.0;
/// The room for counts.
const RIGHT: f64 = 110.0;
const ROW: f64 = 22.0;
const LEGEND: f64 = 46.0;
const DAYS_HEIGHT: f64 = 180.0;
/// The most models that are drawn; the table has all.
const MAX_MODELS: usize = 40;
/// The most days that are drawn as columns of their own.
const MAX_DAYS: i64 = 120;

/// The colour and the label of an outcome, or of a class of errors. The colours can be told apart without red and green.
pub(super) fn look(kind: &str) -> (&'static str, &str) {
    match kind {
        "" => ("#d5d9e0", "no call"),
        "builtin" => ("#b7c4d6", kind),
        "native" => ("#1f6fb4", kind),
        "from_text" => ("#6db3e8", "from text"),
        "coerced" => ("#f6d55c", kind),
        "repaired" => ("#f0a23b", kind),
        "unchecked" => ("#9d8ec7", kind),
        "invalid" => ("#c0392b", kind),
        "retried" => ("#7d3c98", kind),
        "truncated" => ("#5b2333", kind),
        _ => ("#333b47", "error"),
    }
}

/// A kind as it is drawn: errors of all classes are one.
fn drawn(kind: &str) -> &str {
    if rank(kind) < OUTCOMES.len() { kind } else { "error" }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

type Shares<'r> = BTreeMap<(usize, &'r str), u64>;

fn add<'r>(shares: &mut Shares<'r>, kind: &'r str, count: u64) {
    let kind = drawn(kind);
    *shares.entry((rank(kind), kind)).or_default() += count;
}

pub(super) fn svg(report: &TrafficReport) -> String {
    let mut models: BTreeMap<&str, Shares<'_>> = BTreeMap::new();
    for (key, counts) in &report.groups {
        let shares = models.entry(&key.model).or_default();
        match (&*key.outcome, &*key.error_class) {
            ("", class) => add(shares, class, counts.responses),
            (outcome, _) => add(shares, outcome, counts.calls),
        }
    }
    let mut kinds: Vec<_> = models.values().flat_map(|shares| shares.keys().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let hidden = models.len().saturating_sub(MAX_MODELS);
    let bars = models.len().min(MAX_MODELS) as f64 * ROW;
    let days_top = LEGEND + bars + 54.0;
    let height = if report.days.is_empty() { LEGEND + bars + 30.0 } else { days_top + DAYS_HEIGHT + 40.0 };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1d2733\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    legend(&mut out, &kinds);
    for (at, (model, shares)) in models.iter().take(MAX_MODELS).enumerate() {
        model_bar(&mut out, model, shares, LEGEND + at as f64 * ROW);
    }
    if hidden > 0 {
        let y = LEGEND + bars + 14.0;
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{y}\">and {hidden} models more, in the table</text>");
    }
    if !report.days.is_empty() {
        day_columns(&mut out, report, days_top);
    }
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String, kinds: &[(usize, &str)]) {
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"16\" font-weight=\"600\">Calls by their outcome, and responses without a call</text>"
    );
    let mut x = 10.0;
    for (_, kind) in kinds {
        let (colour, label) = look(kind);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"24\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{}\" y=\"34\">{}</text>",
            x + 15.0,
            escape(label)
        );
        x += 34.0 + label.chars().count() as f64 * 6.6;
    }
}

fn model_bar(out: &mut String, model: &str, shares: &Shares<'_>, top: f64) {
    let name = if model.is_empty() { "(no model named)".to_owned() } else { printable(model) };
    let shown: String =
        if name.chars().count() > 30 { name.chars().take(29).chain(['…']).collect() } else { name.clone() };
    let total: u64 = shares.values().sum();
    let middle = top + ROW / 2.0 + 4.0;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}<title>{}</title></text>",
        LEFT - 8.0,
        escape(&shown),
        escape(&name)
    );
    let room = WIDTH - LEFT - RIGHT;
    let mut x = LEFT;
    for ((_, kind), count) in shares {
        let width = room * *count as f64 / total.max(1) as f64;
        let (colour, label) = look(kind);
        let share = 100.0 * *count as f64 / total.max(1) as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.2}\" y=\"{}\" width=\"{width:.2}\" height=\"{}\" fill=\"{colour}\"><title>{} {}: {count} ({share:.1} %)</title></rect>",
            top + 2.0,
            ROW - 4.0,
            escape(&name),
            escape(label)
        );
        x += width;
    }
    let _ = writeln!(out, "<text x=\"{}\" y=\"{middle}\">{}</text>", WIDTH - RIGHT + 8.0, grouped(total));
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn day_columns(out: &mut String, report: &TrafficReport, top: f64) {
    let days = report.days.keys().map(|(day, _)| *day);
    let (first, last) = (days.clone().min().unwrap_or(0), days.max().unwrap_or(0));
    let step = ((last - first) / MAX_DAYS + 1).max(1);
    let mut columns: BTreeMap<i64, Shares<'_>> = BTreeMap::new();
    for ((day, kind), count) in &report.days {
        add(columns.entry((day - first) / step).or_default(), kind, *count);
    }
    // What needs no help would hide the rest.
    let helped = |shares: &Shares<'_>| -> Vec<((usize, String), u64)> {
        let is_odd = |kind: &str| !kind.is_empty() && !super::is_clean(kind);
        let kept = shares.iter().filter(|((_, kind), _)| is_odd(kind));
        kept.map(|((rank, kind), count)| ((*rank, (*kind).to_owned()), *count)).collect()
    };
    let share = |shares: &Shares<'_>, count: u64| count as f64 / shares.values().sum::<u64>().max(1) as f64;
    let odd: BTreeMap<i64, _> = columns.iter().map(|(at, shares)| (*at, helped(shares))).collect();
    let most = columns
        .iter()
        .map(|(at, shares)| share(shares, odd[at].iter().map(|(_, count)| count).sum()))
        .fold(0.01_f64, f64::max);
    let title = if step == 1 { "day by day".to_owned() } else { format!("in steps of {step} days") };
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"{}\" font-weight=\"600\">Share that needed help or failed, {title}</text>",
        top - 12.0
    );
    let count = (last - first) / step + 1;
    let room = WIDTH - LEFT / 2.0 - 20.0;
    let slot = room / count as f64;
    let bottom = top + DAYS_HEIGHT;
    for mark in [0.0, 0.5, 1.0] {
        let y = bottom - mark * (DAYS_HEIGHT - 10.0);
        let _ = writeln!(
            out,
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dfe3e8\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4:.1} %</text>",
            LEFT / 2.0,
            LEFT / 2.0 + room,
            LEFT / 2.0 - 6.0,
            y + 4.0,
            mark * most * 100.0
        );
    }
    for (at, shares) in &columns {
        let x = LEFT / 2.0 + *at as f64 * slot;
        let mut y = bottom;
        for ((_, kind), count) in &odd[at] {
            let height = share(shares, *count) / most * (DAYS_HEIGHT - 10.0);
            y -= height;
            let (colour, label) = look(kind);
            let day = timestamp((first + at * step) * DAY);
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.2}\" fill=\"{colour}\"><title>{} {}: {count}</title></rect>",
                x + slot * 0.1,
                slot * 0.8,
                &day[..10],
                escape(label)
            );
        }
    }
    for at in [0, (count - 1) / 2, count - 1] {
        let x = LEFT / 2.0 + (at as f64 + 0.5) * slot;
        let day = timestamp((first + at * step) * DAY);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            &day[..10]
        );
    }
}
