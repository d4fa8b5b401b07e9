//! The fate of every JSON path that was ever seen in recorded traffic.
//!
//! The list of paths and the recordings lie outside the repository. For each path a frame that has it is
//! found, the value there is changed, and the response is decoded again: if anything but an extra field
//! changes, the path is *read*; if only extra fields do, it is *kept*; if nothing does, it is *volatile* (its
//! protocol says so), *explained* (see [`reasons`]) or *dropped*, which is a fault. Nulls and empty values say
//! nothing, so nothing of them can be lost.

mod path;
mod probe;
mod reasons;
mod recorded;
mod rows;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::cores::each;
use probe::{Effect, Probe};
use reasons::Reason;
use recorded::Recordings;
use rows::Row;

/// The fate of a path.
#[derive(Clone, Copy)]
enum Verdict {
    Read,
    Kept,
    Volatile,
    Silent,
    Explained(&'static Reason),
    Dropped,
}

const COLUMNS: [&str; 6] = ["read", "kept", "volatile", "silent", "explained", "dropped"];

impl Verdict {
    fn of(row: &Row, recordings: &Recordings) -> (Self, Probe) {
        let probe = probe::probe(row, recordings);
        let verdict = match probe.effect {
            Effect::Read => Self::Read,
            Effect::Kept => Self::Kept,
            Effect::Silent => Self::Silent,
            Effect::None if row.is_volatile() => Self::Volatile,
            Effect::None => reasons::find(row).map_or(Self::Dropped, Self::Explained),
        };
        (verdict, probe)
    }

    fn column(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Kept => 1,
            Self::Volatile => 2,
            Self::Silent => 3,
            Self::Explained(_) => 4,
            Self::Dropped => 5,
        }
    }
}

/// The verdicts, path by path.
pub(crate) struct Report {
    rows: Vec<(Row, Verdict, Probe)>,
}

/// The default folder of the recorded material: beside the repository.
pub(crate) fn default_shared() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared")
}

/// Prints the report; an error if a path is dropped without a reason.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let shared = match arguments {
        [] => default_shared(),
        ["--shared", folder] => PathBuf::from(folder),
        _ => return Err("usage: cargo xtask coverage [--shared DIR]".into()),
    };
    let report = Report::of(&shared)?;
    print!("{report}");
    report.check()
}

impl Report {
    /// Probes every path of the list in `shared`.
    pub(crate) fn of(shared: &Path) -> Result<Self, String> {
        let list = shared.join("facts/observed-fields.tsv");
        let text = std::fs::read_to_string(&list)
            .map_err(|error| format!("{}: {error} (say where it is with --shared)", list.display()))?;
        let recordings = Recordings::open(&shared.join("corpus"))?;
        let mut rows = text.lines().skip(1).map(Row::read).collect::<Result<Vec<_>, _>>()?;
        rows.extend(recordings.unlisted_rows(&rows));
        let judged = each(&rows, |row| Verdict::of(row, &recordings));
        let rows = rows.into_iter().zip(judged).map(|(row, (verdict, probe))| (row, verdict, probe));
        Ok(Self { rows: rows.collect() })
    }

    /// Nothing is dropped without a reason, and no reason is left over.
    pub(crate) fn check(&self) -> Result<(), String> {
        let dropped = self.rows.iter().filter(|(_, verdict, _)| matches!(verdict, Verdict::Dropped)).count();
        if dropped > 0 {
            return Err(format!("{dropped} paths are dropped without a reason"));
        }
        let is_needed = |reason: &&Reason| {
            self.rows.iter().any(
                |(_, verdict, _)| matches!(verdict, Verdict::Explained(used) if std::ptr::eq(*used, *reason)),
            )
        };
        match reasons::TABLE.iter().find(|reason| !is_needed(reason)) {
            Some(reason) => {
                Err(format!("nothing is dropped any more because {}: {:?}", reason.why, reason.paths))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: BTreeMap<&str, [usize; COLUMNS.len()]> = BTreeMap::new();
        for (row, verdict, _) in &self.rows {
            counts.entry(&row.protocol).or_default()[verdict.column()] += 1;
        }
        write!(f, "{:24}", "")?;
        COLUMNS.iter().try_for_each(|column| write!(f, "{column:>10}"))?;
        writeln!(f)?;
        for (protocol, counts) in &counts {
            write!(f, "{protocol:24}")?;
            counts.iter().try_for_each(|count| write!(f, "{count:>10}"))?;
            writeln!(f)?;
        }
        let made = self.rows.iter().filter(|(.., probe)| probe.is_made).count();
        writeln!(f, "{} paths, {made} of them in no recording and probed in a made frame", self.rows.len())?;
        for (row, verdict, probe) in &self.rows {
            match verdict {
                Verdict::Explained(reason) => writeln!(f, "explained  {row}  ({})", reason.why)?,
                Verdict::Dropped => writeln!(f, "DROPPED    {row}  ({})", probe.place)?,
                Verdict::Read | Verdict::Kept | Verdict::Volatile | Verdict::Silent => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared;

    #[test]
    fn nothing_is_dropped_without_a_reason() {
        let Some(shared) = shared::find("") else { return };
        let report = Report::of(&shared).expect("readable recordings");
        if let Err(problem) = report.check() {
            panic!("{problem}\n{report}");
        }
    }
}
