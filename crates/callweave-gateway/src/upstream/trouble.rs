//! What goes wrong with an upstream, in words that name it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use callweave::upstream::{ErrorClass, UpstreamError};
use http::StatusCode;

use crate::config::shown_url;
use crate::failure::Failure;
use crate::routes::Target;

/// Something that went wrong with an upstream, as a sentence without its subject: `did not answer within 3 s`.
/// Clients are told it [of a target](Trouble::of).
#[derive(Debug)]
pub(crate) struct Trouble {
    class: ErrorClass,
    status: StatusCode,
    what: Cow<'static, str>,
}

impl Trouble {
    /// The connection failed.
    pub(crate) fn lost(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Transport, status: StatusCode::BAD_GATEWAY, what: what.into() }
    }

    /// Something was waited for, and did not come.
    pub(crate) fn late(what: &'static str, waited: Duration) -> Self {
        let what = format!("{what} within {} s", waited.as_secs_f64());
        Self { status: StatusCode::GATEWAY_TIMEOUT, ..Self::lost(what) }
    }

    /// There is an answer, but none that can be used.
    pub(crate) fn unfit(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Other, ..Self::lost(what) }
    }

    /// The same as an error of that target's.
    pub(crate) fn error(&self, target: &Target) -> UpstreamError<'static> {
        let mut error = UpstreamError::new(self.class, format!("{} {}", named(target), self.what));
        error.status = Some(self.status.as_u16());
        error
    }

    /// The same as a failure of that target's.
    pub(crate) fn of(&self, target: &Target) -> Failure {
        Failure::of(self.error(target))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Who was asked, where, and for what.
pub(crate) fn named(target: &Target) -> String {
    let Target { upstream, model, .. } = target;
    let wire = upstream.wire(model).ok().filter(|_| !upstream.config.is_demo());
    let address = wire.and_then(|wire| wire.address(&upstream.config.url, model, false).ok());
    let address = shown_url(address.as_ref().unwrap_or(&upstream.config.url));
    format!("upstream {:?} (model {model:?} at {address})", upstream.name)
}
