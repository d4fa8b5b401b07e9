//! Files and standard input, read as bytes come.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use crate::progress::ProgressLine;
use crate::report::print;
use crate::wrapping::{ExpectedWrapping, HttpHead, PeekReader, unwrap};

/// A file that is read, or standard input, without what it is wrapped in.
pub(crate) struct InputFile {
    reader: PeekReader,
    /// The wrapping to look for; none once the beginning was examined.
    expected: Option<ExpectedWrapping>,
    head: Option<HttpHead>,
    layers: Vec<&'static str>,
}

/// Enough that a read costs little beside what is done with it, and little enough to stay in the processor's cache; a
/// pipe gives less at a time.
pub(crate) const CHUNK: usize = 128 << 10;

impl InputFile {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path, expected: ExpectedWrapping) -> Result<Self> {
        if path == Path::new("-") {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                print("reading from the terminal; end with ctrl-d, or name a file");
            }
            let counted = CountingReader { reader: stdin.lock(), progress: ProgressLine::of(None) };
            return Ok(Self::of(PeekReader::new(counted), expected));
        }
        Self::file(path, expected)
    }

    /// Opens a file of any name.
    pub(crate) fn file(path: &Path, expected: ExpectedWrapping) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("cannot read {}: it is a directory; name a file in it", path.display());
        }
        let total = metadata.is_file().then_some(metadata.len());
        Ok(Self::of(
            PeekReader::new(CountingReader { reader: file, progress: ProgressLine::of(total) }),
            expected,
        ))
    }

    /// Bytes that are there already.
    pub(crate) fn bytes(bytes: Vec<u8>, expected: ExpectedWrapping) -> Self {
        Self::of(PeekReader::of(bytes), expected)
    }

    fn of(reader: PeekReader, expected: ExpectedWrapping) -> Self {
        Self { reader, expected: Some(expected), head: None, layers: Vec::new() }
    }

    /// The response in a request: as text or as a JSON body, in base64, or by the name of its file.
    pub(crate) fn given(
        data: Option<Box<RawValue>>,
        data_base64: Option<String>,
        file: Option<PathBuf>,
    ) -> Result<Self> {
        let bytes = match (data, data_base64, file) {
            (Some(data), None, None) if data.get().starts_with('"') => {
                serde_json::from_str::<String>(data.get()).context("data is not a text")?.into_bytes()
            }
            (Some(body), None, None) => Box::<str>::from(body).into_string().into_bytes(),
            (None, Some(data), None) => STANDARD.decode(data).context("data_base64 is not base64")?,
            (None, None, Some(path)) => return Self::file(&path, ExpectedWrapping::Answer),
            _ => bail!("a request needs exactly one of data, data_base64 and file"),
        };
        Ok(Self::bytes(bytes, ExpectedWrapping::Answer))
    }

    /// Looks at what it is wrapped in, which may have to wait for its first bytes.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        if let Some(expected) = self.expected.take() {
            let wrapped = std::mem::replace(&mut self.reader, PeekReader::of(Vec::new()));
            let found = unwrap(wrapped, expected)?;
            (self.reader, self.head, self.layers) = (found.reader, found.head, found.layers);
        }
        Ok(())
    }

    /// The head of the HTTP response that it is, once something was read.
    pub(crate) fn head(&self) -> Option<&HttpHead> {
        self.head.as_ref()
    }

    /// Returns the layers of wrapping, from the outside in, once something was read.
    pub(crate) fn layers(&self) -> &[&'static str] {
        &self.layers
    }

    /// Gives each piece to `take` as it comes.
    pub(crate) fn for_each(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        loop {
            let piece = self.fill_buf().context("cannot read the input to its end")?;
            if piece.is_empty() {
                return Ok(());
            }
            let taken = take(piece);
            let length = piece.len();
            self.consume(length);
            taken?;
        }
    }

    /// Gives each piece of text to `take` as it comes. Bytes that are not UTF-8 are replaced.
    pub(crate) fn for_each_text(&mut self, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let mut text = TextDecoder::default();
        self.for_each(|bytes| {
            text.push(bytes);
            take(&text.ready)
        })?;
        text.finish();
        take(&text.ready)
    }
}

/// Decodes bytes in any pieces to text.
#[derive(Default)]
struct TextDecoder {
    ready: String,
    /// The beginning of a character.
    held: Vec<u8>,
}

impl TextDecoder {
    fn push(&mut self, bytes: &[u8]) {
        self.ready.clear();
        self.held.extend_from_slice(bytes);
        let mut rest = &*self.held;
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.ready.push_str(&String::from_utf8_lossy(valid));
            let Some(length) = error.error_len() else {
                self.held = after.to_vec();
                return;
            };
            self.ready.push(char::REPLACEMENT_CHARACTER);
            rest = &after[length..];
        }
        self.ready.push_str(&String::from_utf8_lossy(rest));
        self.held.clear();
    }

    fn finish(&mut self) {
        self.ready.clear();
        if !self.held.is_empty() {
            self.ready.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.look()?;
        self.reader.read(buffer)
    }
}

impl BufRead for InputFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.look()?;
        self.reader.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        self.reader.consume(length);
    }
}

/// A reader that shows how far it has come.
struct CountingReader<R> {
    reader: R,
    progress: Option<ProgressLine>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        if let Some(progress) = &mut self.progress {
            progress.advance(length);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_may_be_cut_anywhere() {
        let bytes = "a–🎈\u{fffd}é".as_bytes();
        let broken = [bytes, b"\xff\xe2\x82(\xf0\x9f"].concat();
        for size in 1..broken.len() {
            let (mut text, mut all) = (TextDecoder::default(), String::new());
            for piece in broken.chunks(size) {
                text.push(piece);
                all += &text.ready;
            }
            text.finish();
            all += &text.ready;
            assert_eq!(all, String::from_utf8_lossy(&broken), "pieces of {size}");
        }
    }
}
