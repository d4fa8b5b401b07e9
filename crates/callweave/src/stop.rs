//! The end of a response after its calls: one policy for exchanges, for the gateway and for handlers of their own.

use std::time::Duration;

use serde::Deserialize;

/// The policy for ending a response after calls. Fields that are not set have defaults of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopPolicy {
    /// Whether it ends after calls; by default it does not.
    pub is_on: Option<bool>,
    /// After which call.
    pub mode: Option<StopMode>,
    /// The time to wait for more after a complete call, in milliseconds; by default 300.
    pub grace_ms: Option<u64>,
    /// Whether text after calls is left out; by default it is if the response ends after calls.
    pub suppress_tail: Option<bool>,
    /// Whether the model may call several tools at once; by default as the client wants.
    pub parallel: Option<bool>,
    /// The number of calls of a choice after which the response ends in the mode [`StopMode::All`], too; by default,
    /// and if it is 0, there is no such number.
    pub max_calls: Option<usize>,
}

/// After which call a response ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// The first.
    #[default]
    First,
    /// The last: when no other has begun for a while. `burst` is another name for it.
    #[serde(alias = "burst")]
    All,
}

impl StopMode {
    /// The mode of that name: `first`, `all`, or `burst`, which is the same as `all`.
    ///
    /// ```
    /// use callweave::stop::StopMode;
    ///
    /// assert_eq!(StopMode::named("burst"), StopMode::named("all"));
    /// assert_eq!(StopMode::named("last"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "first" => Some(Self::First),
            "all" | "burst" => Some(Self::All),
            _ => None,
        }
    }
}

impl StopPolicy {
    /// A policy that ends responses in that mode.
    pub fn after(mode: StopMode) -> Self {
        Self { is_on: Some(true), mode: Some(mode), ..Self::default() }
    }

    /// The mode, if responses end after calls at all.
    pub fn active_mode(&self) -> Option<StopMode> {
        self.is_on.unwrap_or(false).then(|| self.mode.unwrap_or_default())
    }

    /// The time to wait for more after a complete call.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms.unwrap_or(300))
    }

    /// Whether that number of calls of a choice is more than it may have.
    pub fn is_beyond(&self, calls: usize) -> bool {
        self.max_calls.is_some_and(|max| max > 0 && calls > max)
    }

    /// Whether a handler stops the backend at once, with `total` calls forwarded in all and `in_choice` in the choice
    /// of the last one, if that is known. If not, a handler in [`StopMode::All`] starts its grace time anew.
    ///
    /// ```
    /// use callweave::stop::{StopMode, StopPolicy};
    ///
    /// let mut policy = StopPolicy::after(StopMode::All);
    /// policy.max_calls = Some(2);
    /// assert!(!policy.stops_now(2, Some(2)));
    /// assert!(policy.stops_now(3, Some(3)));
    /// assert!(StopPolicy::after(StopMode::First).stops_now(1, None));
    /// assert!(!StopPolicy::default().stops_now(1, None));
    /// ```
    pub fn stops_now(&self, total: usize, in_choice: Option<usize>) -> bool {
        match self.active_mode() {
            None => false,
            Some(StopMode::First) => total > 0,
            Some(StopMode::All) => self.is_beyond(in_choice.unwrap_or(total)),
        }
    }

    /// These settings, and those of the other where these are not set.
    pub fn or(self, other: Self) -> Self {
        Self {
            is_on: self.is_on.or(other.is_on),
            mode: self.mode.or(other.mode),
            grace_ms: self.grace_ms.or(other.grace_ms),
            suppress_tail: self.suppress_tail.or(other.suppress_tail),
            parallel: self.parallel.or(other.parallel),
            max_calls: self.max_calls.or(other.max_calls),
        }
    }
}
