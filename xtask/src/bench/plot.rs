//! The picture: the cost of a piece by the size of its stream, ours and the peers', and the ratios beside the targets.

use std::fmt::Write as _;

use serde_json::Value;

use super::{best_peer, figure, word};

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 720.0;
/// Labels closer than this are pushed apart.
const APART: f64 = 15.0;
/// The ratio at which bars end: one far beyond all targets would make the others small.
const LONGEST: f64 = 20.0;

/// Readable in light and dark surroundings.
const STYLE: &str = "
  .ground { fill: #ffffff; } text { fill: #24292f; font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 12px; }
  .title { font-size: 15px; font-weight: 600; } .quiet, .tick { fill: #6e7781; } .tick { font-size: 11px; }
  .grid { stroke: #d8dee4; stroke-width: 1; } .link { stroke: #afb8c1; stroke-width: 1; fill: none; }
  .peer { stroke: #8c959f; stroke-width: 1.75; fill: none; } .dot { fill: #8c959f; }
  .ours { stroke: #cf3a1c; stroke-width: 3; fill: none; } .our-dot, .bar, .our-label { fill: #cf3a1c; }
  .our-label { font-weight: 600; } .aim { stroke: #24292f; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } text { fill: #e6edf3; } .quiet, .tick { fill: #8b949e; } .grid { stroke: #21262d; }
    .link { stroke: #484f58; } .peer { stroke: #6e7681; } .dot { fill: #6e7681; } .ours { stroke: #ff8a65; }
    .our-dot, .bar, .our-label { fill: #ff8a65; } .aim { stroke: #e6edf3; }
  }
";

/// A line of a panel: its name, and what a piece costs at each size.
struct Line {
    name: String,
    is_ours: bool,
    points: Vec<(f64, f64)>,
}

pub(super) fn picture(rows: &[Value]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"What a \
         piece costs, by the size of the stream\">\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" rx=\"8\"/>\n"
    );
    let streams = [(1e3, "1k"), (1e4, "10k"), (1e5, "100k")];
    let values = [(1e3, "1 kB"), (1e4, "10 kB"), (1e5, "100 kB"), (1e6, "1 MB")];
    let panels = [
        (
            "Chat stream → message",
            "ns per chunk of 320 bytes, by chunks",
            "chat *, an event per read",
            &streams[..],
        ),
        (
            "Anthropic stream → message",
            "ns per event of 126 bytes, by events",
            "anthropic *, an event per read",
            &streams[..],
        ),
        ("JSON value, looked at while it grows", "ns per 4 bytes, by size", "partial value, *", &values[..]),
    ];
    for (number, (title, unit, pattern, sizes)) in panels.into_iter().enumerate() {
        let (column, line) = ((number % 2) as f64, (number / 2) as f64);
        panel(
            &mut out,
            (30.0 + column * 510.0, 30.0 + line * 345.0),
            title,
            unit,
            sizes,
            &lines(rows, pattern, sizes),
        );
    }
    bars(&mut out, (540.0, 375.0), rows);
    out.push_str("</svg>\n");
    out
}

/// The lines of the rows that are called like the pattern, with the size in the place of its star.
fn lines(rows: &[Value], pattern: &str, sizes: &[(f64, &str)]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for &(size, told) in sizes {
        let name = pattern.replace('*', told);
        let Some(row) = rows.iter().find(|row| word(row, "name") == name) else { continue };
        let peers = row["peers"].as_object().into_iter().flatten().map(|(name, time)| (name.as_str(), time));
        for (name, time) in [("callweave", &row["ours_ns"])].into_iter().chain(peers) {
            let Some(time) = time.as_f64() else { continue };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((size, time)),
                None => lines.push(Line {
                    name: name.into(),
                    is_ours: name == "callweave",
                    points: vec![(size, time)],
                }),
            }
        }
    }
    // Ours is drawn last, above the others.
    lines.sort_by_key(|line| line.is_ours);
    lines
}

/// Both axes are logarithms: linear costs are level, quadratic ones rise.
fn panel(
    out: &mut String,
    (left, top): (f64, f64),
    title: &str,
    unit: &str,
    sizes: &[(f64, &str)],
    lines: &[Line],
) {
    let (plot_left, plot_top, width, height) = (left + 52.0, top + 42.0, 210.0, 230.0);
    let all = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let (least, most) =
        all.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let _ = writeln!(out, "<text class=\"title\" x=\"{left:.1}\" y=\"{:.1}\">{title}</text>", top + 8.0);
    let _ = writeln!(out, "<text class=\"quiet\" x=\"{left:.1}\" y=\"{:.1}\">{unit}</text>", top + 26.0);
    if least > most {
        let _ = writeln!(
            out,
            "<text class=\"quiet\" x=\"{plot_left:.1}\" y=\"{:.1}\">not measured</text>",
            top + 60.0
        );
        return;
    }
    // Ticks at 1, 3, 10, 30…, and only the tens where there would be too many.
    let tick = |number: i32| 10_f64.powi(number.div_euclid(2)) * if number % 2 == 0 { 1.0 } else { 3.0 };
    let below = (-20..40).rev().find(|&number| tick(number) <= least).unwrap_or(0);
    let above = (below + 1..41).find(|&number| tick(number) >= most).unwrap_or(40);
    let (low, high) = (tick(below).log10(), tick(above).log10());
    let (first, last) = (sizes[0].0.log10(), sizes[sizes.len() - 1].0.log10());
    let x = |size: f64| plot_left + 6.0 + (size.log10() - first) / (last - first) * (width - 12.0);
    let y = |time: f64| plot_top + (high - time.log10()) / (high - low) * height;
    for number in (below..=above).filter(|number| above - below < 8 || number % 2 == 0) {
        let time = tick(number);
        let at = y(time);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{plot_left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" \
             text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            plot_left + width,
            plot_left - 8.0,
            at + 4.0,
            duration(time)
        );
    }
    for &(size, told) in sizes {
        let _ = writeln!(
            out,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{told}</text>",
            x(size),
            plot_top + height + 18.0
        );
    }
    for line in lines {
        let points: Vec<String> =
            line.points.iter().map(|&(size, time)| format!("{:.1},{:.1}", x(size), y(time))).collect();
        let (class, dot, radius) = if line.is_ours { ("ours", "our-dot", 4.0) } else { ("peer", "dot", 2.5) };
        let _ = writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
        for &(size, time) in &line.points {
            let _ = writeln!(
                out,
                "<circle class=\"{dot}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"/>",
                x(size),
                y(time)
            );
        }
    }
    labels(out, lines, plot_left + width, |line| {
        let (size, time) = line.points[line.points.len() - 1];
        (x(size), y(time), duration(time))
    });
}

/// Names beside the ends of their lines, apart from each other.
fn labels(out: &mut String, lines: &[Line], right: f64, end: impl Fn(&Line) -> (f64, f64, String)) {
    let mut placed: Vec<(&Line, f64, f64, String)> = lines
        .iter()
        .map(|line| {
            let (x, y, time) = end(line);
            (line, x, y, time)
        })
        .collect();
    placed.sort_by(|one, other| one.2.total_cmp(&other.2));
    let mut heights: Vec<f64> = placed.iter().map(|place| place.2).collect();
    for _ in 0..50 {
        for next in 1..heights.len() {
            let overlap = APART - (heights[next] - heights[next - 1]);
            if overlap > 0.0 {
                heights[next] += overlap / 2.0;
                heights[next - 1] -= overlap / 2.0;
            }
        }
    }
    for ((line, x, y, time), height) in placed.iter().zip(heights) {
        let class = if line.is_ours { "our-label" } else { "quiet" };
        let _ = writeln!(
            out,
            "<polyline class=\"link\" points=\"{:.1},{y:.1} {:.1},{height:.1} {:.1},{height:.1}\"/><text class=\"{class}\" \
             x=\"{:.1}\" y=\"{:.1}\">{} {time}</text>",
            x + 5.0,
            right + 12.0,
            right + 16.0,
            right + 19.0,
            height + 4.0,
            short(&line.name)
        );
    }
}

/// Returns the short name of a peer, where there is little room.
fn short(name: &str) -> String {
    name.replace("eventsource-stream", "eventsource")
}

fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        time if time >= 1e6 => format!("{} ms", figure(time / 1e6)),
        time if time >= 1e3 => format!("{} µs", figure(time / 1e3)),
        time => format!("{} ns", figure(time)),
    }
}

/// The ratios of the best peer's time to ours, and the aims.
fn bars(out: &mut String, (left, top): (f64, f64), rows: &[Value]) {
    const SHOWN: [(&str, &str); 7] = [
        ("chat 100k, an event per read", "chat, 100k chunks"),
        ("anthropic 100k, an event per read", "Anthropic, 100k events"),
        ("responses 10k, numbered and padded", "Responses, 10k events"),
        ("recorded openai-chat, from 50 events: median", "recorded chat, median"),
        ("recorded openai-responses, from 50 events: median", "recorded Responses"),
        ("recorded anthropic-messages, from 50 events: median", "recorded Anthropic"),
        ("partial value, 10 kB", "growing value, 10 kB"),
    ];
    let found: Vec<(&str, &Value, f64)> = SHOWN
        .iter()
        .filter_map(|(name, told)| {
            let row = rows.iter().find(|row| word(row, "name") == *name)?;
            Some((*told, row, row["ratio"].as_f64()?))
        })
        .collect();
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{left:.1}\" y=\"{:.1}\">Times as fast as the best by hand</text><text class=\"quiet\" \
         x=\"{left:.1}\" y=\"{:.1}\">a mark is what is wanted; bars end at {LONGEST}x</text>",
        top + 8.0,
        top + 26.0
    );
    let most = found.iter().map(|row| row.2).fold(1.0, f64::max).min(LONGEST);
    let (start, width) = (left + 150.0, 200.0);
    for (number, (told, row, ratio)) in found.iter().enumerate() {
        let at = top + 58.0 + number as f64 * 32.0;
        let length = |value: f64| (value / most).min(1.0) * width;
        let _ = writeln!(
            out,
            "<text class=\"quiet\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{told}</text><rect class=\"bar\" x=\"{start:.1}\" \
             y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>",
            start - 10.0,
            at + 11.0,
            at,
            length(*ratio)
        );
        if let Some(wanted) = row["aim"]["ratio"].as_f64() {
            let mark = start + length(wanted);
            let _ = writeln!(
                out,
                "<line class=\"aim\" x1=\"{mark:.1}\" x2=\"{mark:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                at - 3.0,
                at + 17.0
            );
        }
        let peer = best_peer(row).map_or("", |(name, _)| name);
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\"><tspan class=\"our-label\">{}x</tspan><tspan class=\"tick\" dx=\"6\">{}</tspan></text>",
            start + width.min(length(*ratio).max(length(row["aim"]["ratio"].as_f64().unwrap_or(0.0)))) + 8.0,
            at + 11.0,
            figure(*ratio),
            short(peer).replace("memchr + ", "")
        );
    }
}
