//! The log of the gateway in text: one line for every request, so it should cost little; and what strangers wrote stays
//! within its field.

use std::fmt::{self, Write as _};
use std::io;
use std::time::Duration;

use callweave_gateway::log::LogWriter;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

/// The maximum wait for the last lines.
const FAREWELL: Duration = Duration::from_secs(1);

/// The way to standard error or a file, which nobody has to wait for.
#[derive(Clone)]
pub(crate) struct LogOutput(LogWriter);

impl LogOutput {
    pub(crate) fn new() -> io::Result<Self> {
        #[cfg(unix)]
        if let Ok(descriptor) = std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned() {
            return LogWriter::to(std::fs::File::from(descriptor)).map(Self);
        }
        LogWriter::to(io::stderr()).map(Self)
    }

    /// A log in a file.
    pub(crate) fn to(file: std::fs::File) -> io::Result<Self> {
        LogWriter::to(file).map(Self)
    }

    /// Lets the last lines be written.
    pub(crate) fn finish(&self) {
        self.0.finish(FAREWELL);
    }
}

impl<'w> MakeWriter<'w> for LogOutput {
    type Writer = LogWriter;

    fn make_writer(&'w self) -> LogWriter {
        self.0.clone()
    }
}

/// Fields as `name=value`, the message before them without a name. Texts stand in quotes and are escaped, so that none
/// ends the line, begins another field, or reaches the terminal.
pub(crate) struct PlainFields;

struct LogLine<'w> {
    writer: Writer<'w>,
    has_begun: bool,
    result: fmt::Result,
}

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = LogLine { writer, has_begun: false, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

impl LogLine<'_> {
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

impl Visit for LogLine<'_> {
    /// Records any value by its debug form; the message is one.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, |writer| write!(EscapingWriter(writer), "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, |writer| {
            writer.write_char('"')?;
            match is_each(value, is_plain) {
                true => writer.write_str(value)?,
                false => value.chars().try_for_each(|char| write_escaped(char, writer))?,
            }
            writer.write_char('"')
        });
    }
}

fn is_shown(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn is_plain(byte: u8) -> bool {
    is_shown(byte) & (byte != b'"') & (byte != b'\\')
}

/// Looks at all bytes, since that is many at a time, and mostly they are such.
fn is_each(text: &str, is_such: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(true, |so_far, byte| so_far & is_such(byte))
}

/// Writes a character that nothing else can be taken for: all that is not shown as itself is escaped.
fn write_escaped(char: char, writer: &mut impl fmt::Write) -> fmt::Result {
    match char {
        // Marks that turn the writing direction around, and spaces that nobody sees.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
            write!(writer, "{}", char.escape_unicode())
        }
        '\'' => writer.write_char(char),
        _ => write!(writer, "{}", char.escape_debug()),
    }
}

/// Escapes only what would leave the line: the rest was written by the program.
struct EscapingWriter<'e, 'w>(&'e mut Writer<'w>);

impl fmt::Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if is_each(text, is_shown) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|char| match char {
            ' '..='~' => self.0.write_char(char),
            _ => write_escaped(char, self.0),
        })
    }
}
