//! Objects of which type stubs say more than their Rust types do: words of the vocabulary, JSON values, exceptions.

use std::convert::Infallible;

#[cfg(feature = "stubs")]
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
#[cfg(feature = "stubs")]
use pyo3::{type_hint_identifier, type_hint_subscript};

/// A type whose objects are words that `callweave/_types.py` lists under the same name.
macro_rules! words {
    ($($name:ident),* $(,)?) => {$(
        pub(crate) struct $name(pub(crate) String);

        impl $name {
            /// The name that a part of the vocabulary has in JSON.
            #[allow(dead_code, reason = "some come as words")]
            pub(crate) fn of(part: &impl serde::Serialize) -> Self {
                let text = serde_json::to_string(part).unwrap_or_default();
                Self(text.trim_matches('"').to_owned())
            }
        }

        impl<'py> IntoPyObject<'py> for $name {
            type Target = PyString;
            type Output = Bound<'py, PyString>;
            type Error = Infallible;
            #[cfg(feature = "stubs")]
            const OUTPUT_TYPE: PyStaticExpr = type_hint_identifier!("callweave._types", stringify!($name));

            fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
                Ok(PyString::intern(py, &self.0))
            }
        }
    )*};
}

words! {
    AttachmentKind, BlockCompletion, BlockKind, CallKind, CallResolution, ChangeClass, EventScope, FinishReason,
    InvalidReason, NextStep, NoticeCode, ReasoningForm, RepairVerdict,
}

/// An object that is passed on as it is, with a type of its own in stubs.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident($target:ty) = $hint:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name<'py>(pub(crate) Bound<'py, $target>);

        impl<'py> IntoPyObject<'py> for $name<'py> {
            type Target = $target;
            type Output = Bound<'py, $target>;
            type Error = Infallible;
            #[cfg(feature = "stubs")]
            const OUTPUT_TYPE: PyStaticExpr = $hint;

            fn into_pyobject(self, _: Python<'py>) -> Result<Self::Output, Infallible> {
                Ok(self.0)
            }
        }
    )*};
}

objects! {
    /// An error of an upstream, which can be raised.
    UpstreamException(PyAny) = type_hint_identifier!("callweave._errors", "UpstreamError");
    /// An event of any class.
    AnyEvent(PyAny) = type_hint_identifier!("callweave._types", "Event");
    /// The kind of a delta.
    DeltaKind(PyString) = type_hint_identifier!("callweave._types", "DeltaKind");
    /// A value of the type that was asked for.
    ParsedValue(PyAny) = type_hint_identifier!("callweave._types", "T");
    /// A JSON object.
    JsonObject(PyDict) = type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "str"),
        type_hint_identifier!("typing", "Any")
    );
}

/// The type that arguments are validated into.
pub(crate) struct ParsedType<'py>(pub(crate) Bound<'py, PyAny>);

impl<'py> FromPyObject<'_, 'py> for ParsedType<'py> {
    type Error = Infallible;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: PyStaticExpr = type_hint_subscript!(
        type_hint_identifier!("builtins", "type"),
        type_hint_identifier!("callweave._types", "T")
    );

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self(object.to_owned()))
    }
}
