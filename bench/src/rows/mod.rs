//! The measured rows.

pub(crate) mod cold;
pub(crate) mod dialects;
pub(crate) mod json;
pub(crate) mod memory;
pub(crate) mod program;
pub(crate) mod recorded;
pub(crate) mod repair;
pub(crate) mod translation;
pub(crate) mod wire;

use crate::measure::Case;

/// All rows that are made here, in the order of the report.
pub(crate) fn cases() -> Vec<Case> {
    [wire::cases(), cold::cases(), dialects::cases(), json::cases(), repair::cases(), translation::cases()]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    /// A benchmark of wrong results is none. Repair is where peers are known to give up.
    #[test]
    fn every_way_makes_the_same_of_its_input() {
        for case in super::cases() {
            let differences = (case.make)(case.pieces.min(120)).compare();
            assert!(
                differences.is_empty() || case.name.starts_with("repair"),
                "{}: {differences:?}",
                case.name
            );
        }
    }

    #[test]
    fn names_tell_rows_apart() {
        let mut names: Vec<_> = super::cases().into_iter().map(|case| case.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
