//! Durations as seconds.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let unfit = |_| D::Error::custom(format!("{seconds} is no number of seconds"));
    Duration::try_from_secs_f64(seconds).map_err(unfit)
}
