//! A repaired text with its changes marked.
//!
//! In colour, deletions are red and struck through and insertions green; without colour they stand in `[-…-]` and
//! `{+…+}`.

use std::fmt::Write as _;
use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use crate::commands::repair::{RepairReport, ReportedChange};
use crate::pretty::visible;
use crate::report::excerpt;

const REMOVED: Style = AnsiColor::Red.on_default().strikethrough();
const ADDED: Style = AnsiColor::Green.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// Characters of a value that are shown in the list.
const EXCERPT: usize = 40;

/// The text, marked, and the list of changes.
pub(crate) fn explain(input: &str, report: &RepairReport) -> String {
    let is_coloured = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut page = ExplanationPage { out: String::new(), is_coloured };
    page.mark(input, &report.changes);
    page.list(input, report);
    page.out
}

struct ExplanationPage {
    out: String,
    is_coloured: bool,
}

impl ExplanationPage {
    fn mark(&mut self, input: &str, changes: &[ReportedChange]) {
        let mut done = 0;
        for change in changes {
            let ReportedChange::Text { at, end, replacement, .. } = change else { continue };
            let at = (*at).max(done);
            self.plain(input.get(done..at).unwrap_or_default());
            self.removed(input.get(at..*end).unwrap_or_default());
            self.added(replacement);
            done = at.max(*end);
        }
        self.plain(input.get(done..).unwrap_or_default());
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.push('\n');
    }

    fn list(&mut self, input: &str, report: &RepairReport) {
        let count = report.changes.len();
        let noun = if count == 1 { "change" } else { "changes" };
        let style = match report.verdict {
            "valid" | "repaired" => ADDED,
            _ => AnsiColor::Yellow.on_default().bold(),
        };
        let _ = writeln!(self.out, "{style}{}{style:#}{DIM}, {count} {noun}{DIM:#}", report.verdict);
        for (kind, count, at) in kinds(&report.changes) {
            let _ = writeln!(self.out, "  {count:4} × {kind}  {DIM}first at {}{DIM:#}", place(input, at));
        }
        for change in &report.changes {
            let ReportedChange::Value { kind, path, from, to } = change else { continue };
            let _ = write!(self.out, "  {path}  {DIM}{kind}{DIM:#}  ");
            self.removed(&excerpt(&from.to_string(), EXCERPT));
            self.added(&excerpt(&to.to_string(), EXCERPT));
            self.out.push('\n');
        }
    }

    fn plain(&mut self, text: &str) {
        self.out.extend(text.chars().map(visible));
    }

    fn removed(&mut self, text: &str) {
        self.marked(text, REMOVED, ["[-", "-]"]);
    }

    fn added(&mut self, text: &str) {
        self.marked(text, ADDED, ["{+", "+}"]);
    }

    fn marked(&mut self, text: &str, style: Style, [open, close]: [&str; 2]) {
        if text.is_empty() {
            return;
        }
        if !self.is_coloured {
            self.out.push_str(open);
            self.plain(text);
            return self.out.push_str(close);
        }
        // A style that spans lines is lost in pagers.
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let _ = write!(self.out, "{style}");
            self.plain(line);
            let _ = write!(self.out, "{style:#}{end}");
        }
    }
}

/// The count of each kind of change to the text, and the position of its first.
fn kinds(changes: &[ReportedChange]) -> Vec<(&'static str, usize, usize)> {
    let mut kinds: Vec<(&str, usize, usize)> = Vec::new();
    for change in changes {
        let ReportedChange::Text { kind, at, .. } = change else { continue };
        match kinds.iter_mut().find(|(known, ..)| known == kind) {
            Some((_, count, _)) => *count += 1,
            None => kinds.push((kind, 1, *at)),
        }
    }
    kinds
}

/// The line and column of a byte, as editors count them.
fn place(input: &str, at: usize) -> String {
    let before = input.get(..at).unwrap_or(input);
    let line = before.rsplit('\n').next().unwrap_or_default();
    format!("{}:{}", before.matches('\n').count() + 1, line.chars().count() + 1)
}
