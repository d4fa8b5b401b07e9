//! Reports about recorded traffic: which models break which way, how often, and since when.
//!
//! Rows go in, one after the other; counts by model, protocol, dialect, outcome and class of error come out, as a
//! table, a plot and a page. Calls are counted by their own outcome, responses by that of their worst call.

#[cfg(feature = "arrow")]
mod batch;
mod page;
mod plot;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::row::{BUILTIN, ReadRow};
use callweave::outcome::CallResolution;

/// The values of a row that are counted.
#[derive(Clone, Debug, Default)]
pub struct CountedRow<'r> {
    /// The model.
    pub model: Option<&'r str>,
    /// The protocol.
    pub protocol: Option<&'r str>,
    /// The dialect of the text.
    pub dialect: Option<&'r str>,
    /// The outcomes of its calls.
    pub outcomes: Vec<&'r str>,
    /// The class of its error.
    pub error_class: Option<&'r str>,
    /// The time of the response, in seconds since 1970.
    pub time: Option<i64>,
}

/// Counts of traffic.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    groups: BTreeMap<GroupKey, GroupCounts>,
    /// Calls, or responses without any, by day and kind.
    days: BTreeMap<(i64, String), u64>,
}

/// The values that the rows of a group have in common. A missing value is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct GroupKey {
    /// The model.
    pub model: String,
    /// The protocol.
    pub protocol: String,
    /// The dialect of the text.
    pub dialect: String,
    /// The outcome of the calls; empty for responses without calls.
    pub outcome: String,
    /// The class of the error.
    pub error_class: String,
}

/// The counts of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupCounts {
    /// The responses whose worst call has this outcome, or that have no call.
    pub responses: u64,
    /// The calls with this outcome.
    pub calls: u64,
    /// The time of the first, in seconds since 1970.
    pub first: Option<i64>,
    /// The time of the last.
    pub last: Option<i64>,
}

/// The outcomes, from the best to the worst.
const OUTCOMES: [&str; 10] = [
    "",
    BUILTIN,
    "native",
    "from_text",
    "coerced",
    "repaired",
    "unchecked",
    "invalid",
    "retried",
    "truncated",
];

fn rank(outcome: &str) -> usize {
    OUTCOMES.iter().position(|known| *known == outcome).unwrap_or(OUTCOMES.len())
}

const DAY: i64 = 86_400;

impl TrafficReport {
    /// Counts a row.
    pub fn add(&mut self, row: &CountedRow<'_>) {
        let worst = row.outcomes.iter().copied().max_by_key(|outcome| rank(outcome)).unwrap_or_default();
        self.count(row, worst, |counts| counts.responses += 1);
        for outcome in &row.outcomes {
            self.count(row, outcome, |counts| counts.calls += 1);
            self.count_day(row, outcome);
        }
        if row.outcomes.is_empty() {
            self.count_day(row, row.error_class.unwrap_or_default());
        }
    }

    /// Counts a row that was read.
    pub fn add_read(&mut self, row: &ReadRow, time: Option<i64>) {
        self.add(&CountedRow {
            model: row.message.model.as_deref(),
            protocol: row.protocol.map(|protocol| protocol.name),
            dialect: row.dialect.as_deref(),
            outcomes: row.calls().map(|call| call.outcome).collect(),
            error_class: row.problem.as_ref().map(|problem| problem.class),
            time,
        });
    }

    /// Adds the counts of another part of the same traffic.
    pub fn merge(&mut self, other: Self) {
        for (key, counts) in other.groups {
            let own = self.groups.entry(key).or_default();
            own.responses += counts.responses;
            own.calls += counts.calls;
            own.first = own.first.into_iter().chain(counts.first).min();
            own.last = own.last.into_iter().chain(counts.last).max();
        }
        for (key, count) in other.days {
            *self.days.entry(key).or_default() += count;
        }
    }

    fn count(&mut self, row: &CountedRow<'_>, outcome: &str, add: impl FnOnce(&mut GroupCounts)) {
        let own = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let key = GroupKey {
            model: own(row.model),
            protocol: own(row.protocol),
            dialect: own(row.dialect),
            outcome: outcome.to_owned(),
            error_class: own(row.error_class),
        };
        let counts = self.groups.entry(key).or_default();
        add(counts);
        counts.first = counts.first.into_iter().chain(row.time).min();
        counts.last = counts.last.into_iter().chain(row.time).max();
    }

    fn count_day(&mut self, row: &CountedRow<'_>, kind: &str) {
        if let Some(time) = row.time {
            *self.days.entry((time.div_euclid(DAY), kind.to_owned())).or_default() += 1;
        }
    }

    /// The groups, those of one model together, of each model the largest first.
    pub fn groups(&self) -> Vec<(&GroupKey, &GroupCounts)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by(|(a, one), (b, other)| {
            a.model.cmp(&b.model).then(other.responses.cmp(&one.responses)).then(other.calls.cmp(&one.calls))
        });
        groups
    }

    /// The number of responses.
    pub fn responses(&self) -> u64 {
        self.groups.values().map(|counts| counts.responses).sum()
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.groups.values().map(|counts| counts.calls).sum()
    }

    /// The groups as JSON, one object in each line.
    pub fn to_jsonl(&self) -> String {
        #[derive(Serialize)]
        struct Group<'g> {
            #[serde(flatten)]
            key: &'g GroupKey,
            responses: u64,
            calls: u64,
            first: Option<String>,
            last: Option<String>,
        }
        let mut lines = String::new();
        for (key, GroupCounts { responses, calls, first, last }) in self.groups() {
            let (first, last) = (first.map(timestamp), last.map(timestamp));
            let group = Group { key, responses: *responses, calls: *calls, first, last };
            lines += &serde_json::to_string(&group).expect("a group is texts and numbers");
            lines.push('\n');
        }
        lines
    }

    /// The groups as a table of text.
    pub fn to_table(&self) -> String {
        let rows: Vec<_> = self.groups().into_iter().map(|(key, counts)| cells(key, counts)).collect();
        let widths: Vec<usize> = (0..COLUMNS.len())
            .map(|at| {
                let cells = rows.iter().map(|row| row[at].chars().count());
                cells.chain([COLUMNS[at].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let mut table = String::new();
        let mut put = |row: &[String]| {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[at] - cell.chars().count());
                let is_number = NUMBERS.contains(&at);
                let _ = if is_number { write!(line, "{gap}{cell}  ") } else { write!(line, "{cell}{gap}  ") };
            }
            table.push_str(line.trim_end());
            table.push('\n');
        };
        put(&COLUMNS.map(str::to_owned));
        rows.iter().for_each(|row| put(row));
        let _ = writeln!(table, "{} responses, {} calls", self.responses(), self.calls());
        table
    }

    /// The plot as an SVG image.
    pub fn to_svg(&self) -> String {
        plot::svg(self)
    }

    /// Everything as one HTML page that needs nothing else.
    pub fn to_html(&self) -> String {
        page::html(self)
    }
}

const COLUMNS: [&str; 9] =
    ["model", "protocol", "dialect", "outcome", "error class", "responses", "calls", "first", "last"];
const NUMBERS: std::ops::Range<usize> = 5..7;

fn cells(key: &GroupKey, counts: &GroupCounts) -> [String; COLUMNS.len()] {
    let shown = |value: &str| if value.is_empty() { "-".to_owned() } else { printable(value) };
    let day = |time: Option<i64>| time.map_or("-".to_owned(), |time| timestamp(time)[..10].to_owned());
    [
        shown(&key.model),
        shown(&key.protocol),
        shown(&key.dialect),
        shown(&key.outcome),
        shown(&key.error_class),
        counts.responses.to_string(),
        counts.calls.to_string(),
        day(counts.first),
        day(counts.last),
    ]
}

/// The most characters of a name that are shown: names of models come from outside.
const MAX_NAME: usize = 60;

fn printable(name: &str) -> String {
    name.chars().take(MAX_NAME).map(|letter| if letter.is_control() { '·' } else { letter }).collect()
}

/// A time as in RFC 3339, in UTC.
pub fn timestamp(seconds: i64) -> String {
    // Days since the first of March of year 0, whose leap day is the last of its year; as in Hinnant's algorithm.
    let days = seconds.div_euclid(DAY) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Whether a call with that outcome needed no help.
fn is_clean(outcome: &str) -> bool {
    rank(outcome) <= rank(CallResolution::FromText.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> TrafficReport {
        let mut report = TrafficReport::default();
        let row = |outcomes: &[&'static str], error_class, time| CountedRow {
            model: Some("a<b"),
            dialect: Some("hermes"),
            outcomes: outcomes.to_vec(),
            error_class,
            time: Some(time),
            ..CountedRow::default()
        };
        report.add(&row(&["native", "repaired"], None, DAY));
        report.add(&row(&["native"], None, 3 * DAY));
        report.add(&row(&[], Some("rate_limit"), 2 * DAY));
        report.add(&CountedRow::default());
        report
    }

    #[test]
    fn a_response_counts_for_its_worst_call_and_each_call_for_itself() {
        let report = report();
        assert_eq!((report.responses(), report.calls()), (4, 3));
        let counts = |outcome: &str| {
            let found =
                report.groups().into_iter().find(|(key, _)| key.outcome == outcome && key.model == "a<b");
            found.map(|(_, counts)| *counts).expect("a group")
        };
        let native = GroupCounts { responses: 1, calls: 2, first: Some(DAY), last: Some(3 * DAY) };
        assert_eq!(counts("native"), native);
        assert_eq!(counts("repaired").responses, 1);
        assert_eq!(counts("").first, Some(2 * DAY));
    }

    #[test]
    fn a_page_needs_nothing_else_and_shows_names_as_text() {
        let page = report().to_html();
        assert!(page.contains("a&lt;b") && !page.contains("a<b"), "{page}");
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org/2000/svg").count()
        );
        assert!(!page.contains("https://") && !page.contains("src="));
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn every_outcome_has_a_rank() {
        for outcome in
            ["native", "from_text", "coerced", "repaired", "unchecked", "invalid", "retried", "truncated"]
        {
            assert!(rank(outcome) < OUTCOMES.len(), "{outcome}");
        }
        assert!(is_clean("from_text") && !is_clean("repaired"));
    }
}
