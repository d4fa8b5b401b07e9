//! The log of the gateway in text that no terminal shows: one line for every request, so it should cost little.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Standard error, which nobody has to wait for: a line is written at once, so lines cannot mix.
pub(crate) fn writer() -> BoxMakeWriter {
    #[cfg(unix)]
    if let Ok(descriptor) = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned() {
        return BoxMakeWriter::new(std::fs::File::from(descriptor));
    }
    BoxMakeWriter::new(std::io::stderr)
}

/// Fields as `name=value`, the message before them without a name.
pub(crate) struct Plain;

struct Line<'w> {
    writer: Writer<'w>,
    has_begun: bool,
    result: fmt::Result,
}

impl<'w> FormatFields<'w> for Plain {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, has_begun: false, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

impl Line<'_> {
    fn put(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let begin = |writer: &mut Writer<'_>, has_begun: bool| {
            if has_begun {
                writer.write_char(' ')?;
            }
            if field.name() != "message" {
                writer.write_str(field.name())?;
                writer.write_char('=')?;
            }
            value(writer)
        };
        if self.result.is_ok() {
            self.result = begin(&mut self.writer, self.has_begun);
            self.has_begun = true;
        }
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, |writer| write!(writer, "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
        self.put(field, |writer| match is_plain {
            true => {
                writer.write_char('"')?;
                writer.write_str(value)?;
                writer.write_char('"')
            }
            false => write!(writer, "{value:?}"),
        });
    }
}
