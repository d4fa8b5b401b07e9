//! Checks the data of a dialect: data that would be ignored or could never match is refused.

use super::markers::may_begin;
use super::spec::{CallBody, CallForm, Dialect, JsonBody, NamedTag, TaggedBody};
use crate::error::{Error, ErrorKind, Result};

/// The result of a check; its error is a sentence that begins with the field.
pub(super) type SpecResult = std::result::Result<(), String>;

impl Dialect {
    /// Whether it has all it needs: names to be asked for by, and no marker that is missing or empty.
    ///
    /// The error names the field. A [`DialectRegistry`](super::DialectRegistry) takes no dialect without this.
    ///
    /// ```
    /// use callweave::dialect::{Dialect, CallForm};
    ///
    /// let dialect = Dialect::new("tilde").form(CallForm::json().between("~~~call", ""));
    /// let error = dialect.check().expect_err("nothing can end at an empty marker");
    /// assert_eq!(error.detail(), "the dialect \"tilde\" is not usable: forms[0].close is empty");
    /// ```
    pub fn check(&self) -> Result<()> {
        self.complain().map_err(|complaint| {
            Error::new(ErrorKind::Invalid, format!("the dialect {:?} is not usable: {complaint}", self.name))
        })
    }

    fn complain(&self) -> SpecResult {
        name("name", &self.name)?;
        each("aliases", &self.aliases, name)?;
        // An empty part would be found in the name of every model.
        each("models", &self.models, filled)?;
        each("markup", &self.markup, marker)?;
        for (index, pair) in self.reasoning.iter().enumerate() {
            markers(&format!("reasoning[{index}].open"), &pair.open)?;
            markers(&format!("reasoning[{index}].close"), &pair.close)?;
            if pair.close.is_empty() {
                return Err(format!("reasoning[{index}].close is missing"));
            }
        }
        for (index, form) in self.forms.iter().enumerate() {
            let field = format!("forms[{index}]");
            markers(&format!("{field}.open"), &form.open)?;
            markers(&format!("{field}.close"), &form.close)?;
            body(&field, form)?;
            // A grammar of channels opens its calls with a header.
            if form.open.is_empty() && self.channels.is_none() && !opens_itself(&form.body) {
                return Err(format!("{field}.open is missing, and its body has no sign of its own"));
            }
        }
        Ok(())
    }
}

/// Whether a body is found without a marker before it.
fn opens_itself(body: &CallBody) -> bool {
    match body {
        CallBody::Json(_)
        | CallBody::Python {}
        | CallBody::Elements(_)
        | CallBody::Children(_)
        | CallBody::Matched(_) => true,
        CallBody::Tagged(body) => !body.call.open.is_empty(),
        CallBody::Header(_) | CallBody::Braces(_) | CallBody::Fields(_) => false,
    }
}

fn body(field: &str, form: &CallForm) -> SpecResult {
    let of = |kind: &str, key: &str| format!("{field}.body.{kind}.{key}");
    match &form.body {
        CallBody::Json(body) => json(&|key| of("json", key), body),
        CallBody::Header(body) => {
            markers(&of("header", "before"), &body.before)?;
            markers(&of("header", "after"), &body.after)?;
            body.id.iter().try_for_each(|id| marker(&of("header", "id"), id))
        }
        CallBody::Tagged(body) => tagged(&|key| of("tagged", key), body),
        CallBody::Braces(body) => markers(&of("braces", "before"), &body.before),
        CallBody::Elements(body) => body.check(&|key| of("elements", key)),
        CallBody::Fields(body) => body.check(&|key| of("fields", key)),
        CallBody::Children(body) if !body.call.open.is_empty() => {
            tag(&of("children", "call"), &body.call)?;
            marker(&of("children", "call.end"), &body.call.end)?;
            marker(&of("children", "call_close"), &body.call_close)
        }
        CallBody::Python {} | CallBody::Children(_) | CallBody::Matched(_) => Ok(()),
    }
}

fn json(of: &dyn Fn(&str) -> String, body: &JsonBody) -> SpecResult {
    for (key, texts) in [("name", &body.name), ("arguments", &body.arguments), ("id", &body.id)] {
        texts.iter().try_for_each(|text| filled(&of(key), text))?;
    }
    Ok(())
}

fn tagged(of: &dyn Fn(&str) -> String, body: &TaggedBody) -> SpecResult {
    if !body.call.open.is_empty() {
        tag(&of("call"), &body.call)?;
    }
    markers(&of("call_close"), &body.call_close)?;
    tag(&of("parameter"), &body.parameter)?;
    marker(&of("parameter.end"), &body.parameter.end)?;
    for spelling in &body.spellings {
        tag(&of("spellings"), spelling)?;
        marker(&of("spellings.end"), &spelling.end)?;
    }
    marker(&of("value_close"), &body.value_close)
}

/// A direct name may be ended by the text that follows; one in an attribute needs the end of its tag.
pub(super) fn tag(field: &str, tag: &NamedTag) -> SpecResult {
    marker(&format!("{field}.open"), &tag.open)?;
    match &tag.attribute {
        None => Ok(()),
        Some(attribute) => {
            filled(&format!("{field}.attribute"), attribute)?;
            marker(&format!("{field}.end"), &tag.end)
        }
    }
}

fn name(field: &str, text: &str) -> SpecResult {
    match text {
        "auto" => Err(format!("{field} is \"auto\", which lets the text decide")),
        _ => filled(field, text),
    }
}

fn each(field: &str, texts: &[String], check: fn(&str, &str) -> SpecResult) -> SpecResult {
    texts.iter().enumerate().try_for_each(|(index, text)| check(&format!("{field}[{index}]"), text))
}

fn markers(field: &str, texts: &[String]) -> SpecResult {
    texts.iter().try_for_each(|text| marker(field, text))
}

pub(super) fn marker(field: &str, text: &str) -> SpecResult {
    match text {
        "" => Err(format!("{field} is empty")),
        _ if !may_begin(text) => Err(format!("{field} begins with a placeholder; it needs text before it")),
        _ => Ok(()),
    }
}

pub(super) fn filled(field: &str, text: &str) -> SpecResult {
    if text.trim().is_empty() { Err(format!("{field} is empty")) } else { Ok(()) }
}
