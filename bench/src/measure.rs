//! Ways to do the same work, side by side: in turns, so that a slow phase of the machine hits all of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::peers::{Collected, Outcome};

/// Work shorter than this is repeated within a round, since a clock has its own noise.
const SHORTEST: Duration = Duration::from_millis(2);

/// One way to do the work of a row.
pub(crate) struct Way {
    name: &'static str,
    /// The ratio of the complete work to the work of a run, where only a part of it is tried.
    times: f64,
    run: Box<dyn Fn() -> Outcome>,
}

impl Way {
    pub(crate) fn new(name: &'static str, run: impl Fn() -> Outcome + 'static) -> Self {
        Self { name, times: 1.0, run: Box::new(run) }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Declares that the run is only one in `times` of all the steps.
    pub(crate) fn one_of(self, times: usize) -> Self {
        Self { times: times as f64, ..self }
    }

    /// Nanoseconds of one run, of as many as make a round.
    fn time(&self, repeats: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..repeats {
            black_box((self.run)());
        }
        start.elapsed().as_nanos() as f64 / f64::from(repeats) * self.times
    }
}

/// The same work in several ways; the first is ours.
pub(crate) struct Row {
    pub(crate) pieces: usize,
    pub(crate) ways: Vec<Way>,
}

/// Nanoseconds per piece.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) best: f64,
    pub(crate) median: f64,
}

pub(crate) struct Measured {
    pub(crate) ours: Times,
    pub(crate) peers: Vec<(&'static str, Times)>,
    /// The best of the peers' times by our best.
    pub(crate) ratio: Option<f64>,
    /// The median of what each round gave.
    pub(crate) median_ratio: Option<f64>,
}

impl Row {
    /// Leaves out peers whose result differs from ours, and returns the differences.
    pub(crate) fn compare(&mut self) -> Vec<String> {
        self.compare_by(Collected::difference)
    }

    /// The same, where a peer may differ from us in some ways.
    pub(crate) fn compare_by(
        &mut self,
        difference: fn(&Collected, &Collected) -> Option<String>,
    ) -> Vec<String> {
        let ours = (self.ways[0].run)().into_collected();
        let mut differences = Vec::new();
        self.ways.retain(|way| {
            let difference = difference(&(way.run)().into_collected(), &ours);
            differences.extend(difference.as_ref().map(|what| format!("{}: {what}", way.name)));
            difference.is_none()
        });
        differences
    }

    /// Does the work in one of the ways, as often.
    pub(crate) fn run(&self, way: usize, times: u32) {
        for _ in 0..times {
            black_box((self.ways[way].run)());
        }
    }

    pub(crate) fn measure(&self, rounds: usize) -> Measured {
        let repeats: Vec<u32> = self
            .ways
            .iter()
            .map(|way| {
                let once = least(&[way.time(1), way.time(1), way.time(1)]);
                (SHORTEST.as_nanos() as f64 * way.times / once).clamp(1.0, 10_000.0) as u32
            })
            .collect();
        let rounds: Vec<Vec<f64>> = (0..rounds)
            .map(|_| {
                let times = self.ways.iter().zip(&repeats).map(|(way, &repeats)| way.time(repeats));
                times.map(|time| time / self.pieces as f64).collect()
            })
            .collect();
        let of = |way: usize| {
            let times: Vec<f64> = rounds.iter().map(|round| round[way]).collect();
            Times { best: least(&times), median: median(times) }
        };
        let ours = of(0);
        let peers: Vec<_> = (1..self.ways.len()).map(|way| (self.ways[way].name, of(way))).collect();
        let has_peers = !peers.is_empty();
        let best: Vec<f64> = peers.iter().map(|(_, times)| times.best).collect();
        let ratios = rounds.iter().map(|round| least(&round[1..]) / round[0]).collect();
        Measured {
            ratio: has_peers.then(|| least(&best) / ours.best),
            median_ratio: has_peers.then(|| median(ratios)),
            ours,
            peers,
        }
    }
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The aim of a row, and its target in `docs/performance.md`.
#[derive(Clone, Copy)]
pub(crate) struct Target(pub(crate) u8, pub(crate) Aim);

#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// The minimum ratio of the best peer's time to ours.
    Ratio(f64),
    /// The maximum number of nanoseconds of a piece.
    Nanoseconds(f64),
    /// The maximum number of instructions of a piece.
    Instructions(f64),
    /// The maximum number of bytes.
    Bytes(f64),
}

/// A row to be measured: its name, and the function that makes it of a number of pieces.
pub(crate) struct Case {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    /// The unit of a piece.
    pub(crate) unit: &'static str,
    pub(crate) pieces: usize,
    pub(crate) target: Option<Target>,
    pub(crate) make: Box<dyn Fn(usize) -> Row>,
}

/// The measurements of a row.
pub(crate) struct Report {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) target: Option<Target>,
    pub(crate) ours: Option<Times>,
    pub(crate) peers: Vec<(String, Times)>,
    pub(crate) ratio: Option<f64>,
    pub(crate) median_ratio: Option<f64>,
    pub(crate) instructions: Option<f64>,
    /// Of the peers, where the ratio is one of these.
    pub(crate) peers_instructions: Vec<(String, f64)>,
    pub(crate) bytes: Option<f64>,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Of something that no peer does.
    pub(crate) fn new(group: &'static str, name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            group,
            name: name.into(),
            unit,
            target: None,
            ours: None,
            peers: Vec::new(),
            ratio: None,
            median_ratio: None,
            instructions: None,
            peers_instructions: Vec::new(),
            bytes: None,
            notes: Vec::new(),
        }
    }

    pub(crate) fn measured(self, measured: Measured) -> Self {
        let Measured { ours, peers, ratio, median_ratio } = measured;
        let peers = peers.into_iter().map(|(name, times)| (name.to_owned(), times)).collect();
        Self { ours: Some(ours), peers, ratio, median_ratio, ..self }
    }

    /// Whether the target is met, as far as that was measured.
    fn is_met(&self) -> Option<bool> {
        match self.target?.1 {
            Aim::Ratio(least) => self.ratio.map(|ratio| ratio >= least),
            Aim::Nanoseconds(most) => self.ours.map(|ours| ours.best <= most),
            Aim::Instructions(most) => self.instructions.map(|count| count <= most),
            Aim::Bytes(most) => self.bytes.map(|bytes| bytes <= most),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        let peers = |of: fn(&Times) -> f64| -> Map<String, Value> {
            self.peers.iter().map(|(name, times)| (name.clone(), json!(rounded(of(times))))).collect()
        };
        let aim = self.target.map(|Target(_, aim)| match aim {
            Aim::Ratio(least) => json!({"ratio": least}),
            Aim::Nanoseconds(most) => json!({"nanoseconds": most}),
            Aim::Instructions(most) => json!({"instructions": most}),
            Aim::Bytes(most) => json!({"bytes": most}),
        });
        json!({
            "group": self.group,
            "name": self.name,
            "unit": self.unit,
            "ours_ns": self.ours.map(|ours| rounded(ours.best)),
            "ours_median_ns": self.ours.map(|ours| rounded(ours.median)),
            "peers": peers(|times| times.best),
            "peers_median": peers(|times| times.median),
            "ratio": self.ratio.map(rounded),
            "median_ratio": self.median_ratio.map(rounded),
            "instructions": self.instructions.map(f64::round),
            "peers_instructions": self
                .peers_instructions
                .iter()
                .map(|(name, count)| (name.clone(), json!(count.round())))
                .collect::<Map<String, Value>>(),
            "bytes": self.bytes.map(f64::round),
            "target": self.target.map(|target| target.0),
            "aim": aim,
            "met": self.is_met(),
            "notes": self.notes,
        })
    }
}
