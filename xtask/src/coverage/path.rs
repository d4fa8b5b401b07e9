//! Paths into JSON, as the list writes them: `.a.b[].c`.

use callweave::json::Value;

/// A path, step by step.
pub(crate) struct Path<'p>(Vec<Step<'p>>);

enum Step<'p> {
    Member(&'p str),
    /// Every element of a list.
    Each,
}

impl<'p> Path<'p> {
    pub(crate) fn read(text: &'p str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[]") {
                steps.push(Step::Each);
                rest = after;
                continue;
            }
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find('.').into_iter().chain(name.find("[]")).min().unwrap_or(name.len());
            steps.push(Step::Member(&name[..end]));
            rest = &name[end..];
        }
        Self(steps)
    }

    /// Everything at the path.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.0.iter().fold(vec![root], |found, step| {
            found
                .into_iter()
                .flat_map(|value| match step {
                    Step::Member(name) => value.get(*name).into_iter().collect(),
                    Step::Each => value.as_array().into_iter().flatten().collect::<Vec<_>>(),
                })
                .collect()
        })
    }

    /// Replaces the `nth` value at the path.
    pub(crate) fn replace(&self, root: &mut Value, nth: usize, other: &Value) {
        let found = self.0.iter().fold(vec![root], |found, step| {
            found
                .into_iter()
                .flat_map(|value| match step {
                    Step::Member(name) => value.get_mut(*name).into_iter().collect(),
                    Step::Each => value.as_array_mut().into_iter().flatten().collect::<Vec<_>>(),
                })
                .collect()
        });
        if let Some(value) = found.into_iter().nth(nth) {
            *value = other.clone();
        }
    }

    /// The number of steps in `root`.
    pub(crate) fn depth_in(&self, root: &Value) -> usize {
        let mut at = root;
        for (depth, step) in self.0.iter().enumerate() {
            let next = match step {
                Step::Member(name) => at.get(*name),
                Step::Each => at.get(0),
            };
            match next {
                Some(next) => at = next,
                None => return depth,
            }
        }
        self.0.len()
    }

    /// Puts a value at the path, making what is missing on the way.
    pub(crate) fn put(&self, root: &mut Value, value: &Value) {
        let mut at = root;
        for step in &self.0 {
            at = match step {
                Step::Member(name) => {
                    if !at.is_object() {
                        *at = Value::Object(Default::default());
                    }
                    &mut at[*name]
                }
                Step::Each => {
                    if at.get(0).is_none() {
                        *at = Value::Array(vec![Value::Null].into());
                    }
                    &mut at[0]
                }
            };
        }
        *at = value.clone();
    }
}
