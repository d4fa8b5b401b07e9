//! Problems of a configuration, and their positions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The problems of a configuration: everything that was found, each with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    file: Option<String>,
    flaws: Vec<(Option<ValueOrigin>, String)>,
}

/// One thing that is wrong, or doubtful: the path of the key, such as `upstreams.local.base_url`, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigFlaw {
    pub(crate) path: String,
    pub(crate) what: String,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueOrigin {
    Line(usize),
    Variable(&'static str),
}

/// The origin of a configuration's values: a file, variables, or nowhere that could be named.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigOrigin {
    file: Option<String>,
    places: BTreeMap<String, ValueOrigin>,
    /// Keys that stand in the file under their old names: the old name, and the path of today.
    renamed: Vec<(&'static str, String)>,
}

impl ConfigFlaw {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl ConfigOrigin {
    pub(super) fn put_line(&mut self, path: &str, line: usize) {
        self.places.entry(path.to_owned()).or_insert(ValueOrigin::Line(line));
    }

    pub(super) fn put_renamed(&mut self, old: &'static str, path: String, line: usize) {
        self.put_line(&path, line);
        self.renamed.push((old, path));
    }

    /// A warning for each key that stands in the file under its old name.
    pub(super) fn renamed(&self) -> impl Iterator<Item = ConfigFlaw> {
        self.renamed.iter().map(|(old, path)| {
            let (_, new) = path.rsplit_once('.').unwrap_or_default();
            ConfigFlaw::new(path, format!("{old} is called {new} now"))
        })
    }

    pub(super) fn put_variable(&mut self, path: String, variable: &'static str) {
        self.places.insert(path, ValueOrigin::Variable(variable));
    }

    pub(super) fn set_file(&mut self, path: &Path) {
        self.file = Some(path.display().to_string());
    }

    /// The variable that a value was taken from.
    pub(super) fn variable(&self, path: &str) -> Option<&'static str> {
        match self.places.get(path) {
            Some(ValueOrigin::Variable(name)) => Some(name),
            _ => None,
        }
    }

    /// The place of a key; of one that does not stand there, that of its table.
    fn place(&self, path: &str) -> Option<ValueOrigin> {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return Some(place.clone());
            }
            path = path.rsplit_once('.')?.0;
        }
    }

    /// Returns the flaws as a problem, each with its position; `Ok` if there are none.
    pub(crate) fn problem(&self, flaws: Vec<ConfigFlaw>) -> Result<(), ConfigProblem> {
        let placed =
            |flaw: ConfigFlaw| (self.place(&flaw.path), format!("{}{}", path_of(&flaw.path), flaw.what));
        match flaws.is_empty() {
            true => Ok(()),
            false => {
                Err(ConfigProblem { file: self.file.clone(), flaws: flaws.into_iter().map(placed).collect() })
            }
        }
    }
}

fn path_of(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

impl ConfigProblem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { file: None, flaws: vec![(None, what.into())] }
    }

    pub(super) fn at_line(mut self, line: Option<usize>) -> Self {
        self.flaws.iter_mut().for_each(|(place, _)| *place = line.map(ValueOrigin::Line));
        self
    }

    /// Both.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.flaws.extend(other.flaws);
        self
    }

    pub(super) fn in_file(self, path: &Path) -> Self {
        Self { file: Some(path.display().to_string()), ..self }
    }

    /// Returns the findings, one line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.flaws.iter().map(|(place, what)| {
            let file = |file: &String| format!("{file}: ");
            match place {
                Some(ValueOrigin::Variable(name)) => format!("{name}: {what}"),
                Some(ValueOrigin::Line(line)) => {
                    format!("{}line {line}: {what}", self.file.as_ref().map(file).unwrap_or_default())
                }
                None => format!("{}{what}", self.file.as_ref().map(file).unwrap_or_default()),
            }
        })
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().collect::<Vec<_>>().join("\n"))
    }
}

impl std::error::Error for ConfigProblem {}
