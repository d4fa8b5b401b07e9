//! The wrappings of a response: gzip, and the heads of HTTP responses as `curl -i` records them.
//!
//! A recording says little that can be trusted: `curl` undoes chunks and compression and leaves the headers that
//! announce them. Therefore the bytes decide, and a header only says what to look for. Nothing is read further than the
//! decision needs.

use std::io::{self, BufRead, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use crate::input::CHUNK;

/// The bytes inside, and what was around them.
pub(crate) struct UnwrappedInput {
    pub(crate) reader: PeekReader,
    pub(crate) head: Option<HttpHead>,
    /// The names of the layers, from the outside in.
    pub(crate) layers: Vec<&'static str>,
}

/// The head of an HTTP response, as far as it matters here.
#[derive(Default)]
pub(crate) struct HttpHead {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    may_be_chunked: bool,
    may_be_deflated: bool,
}

/// The wrappings to look for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedWrapping {
    /// Compression alone.
    Text,
    /// Compression, and HTTP around it or in it.
    Answer,
}

/// Layers that are looked through. A recording has a handful of them; more are a trap.
const MAX_LAYERS: usize = 32;
/// A head that is longer is none.
const MAX_HEAD: usize = 256 << 10;
/// A line with the length of a chunk that is longer is none.
const MAX_LENGTH_LINE: u64 = 4 << 10;

const GZIP: &[u8] = b"\x1f\x8b";
/// Formats that are detected but not read, and the command that reads each.
const EXTRA: [(&[u8], &str, &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
    (b"BZh91AY&SY", "compressed with bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
];

/// Looks through what `reader` is wrapped in.
pub(crate) fn unwrap(mut reader: PeekReader, expected: ExpectedWrapping) -> io::Result<UnwrappedInput> {
    let (mut head, mut layers) = (None, Vec::new());
    while layers.len() < MAX_LAYERS {
        if reader.starts_with(GZIP)? {
            layers.push("gzip");
            reader = PeekReader::new(MultiGzDecoder::new(reader));
            continue;
        }
        if expected == ExpectedWrapping::Text {
            break;
        }
        let Some(found) = reader.take_head()? else { break };
        layers.push("http");
        if found.may_be_chunked && reader.starts_with_length()? {
            layers.push("chunks");
            reader = PeekReader::new(ChunkedBody::new(reader));
        }
        if found.may_be_deflated && reader.starts_like_zlib()? {
            layers.push("deflate");
            reader = PeekReader::new(ZlibDecoder::new(reader));
        }
        head = Some(found);
    }
    for (magic, what, program) in EXTRA {
        if reader.starts_with(magic)? {
            let advice = format!("it is {what}; unpack it first: {program} FILE | callweave …");
            return Err(io::Error::new(io::ErrorKind::Unsupported, advice));
        }
    }
    Ok(UnwrappedInput { reader, head, layers })
}

/// A reader whose next bytes can be looked at.
pub(crate) struct PeekReader {
    /// The source of more bytes; none once it has ended.
    reader: Option<Box<dyn Read>>,
    /// The bytes that were read, followed by room for more.
    bytes: Vec<u8>,
    /// The start of the unread bytes.
    start: usize,
    end: usize,
}

impl PeekReader {
    pub(crate) fn new(reader: impl Read + 'static) -> Self {
        Self { reader: Some(Box::new(reader)), bytes: Vec::new(), start: 0, end: 0 }
    }

    /// Bytes that are all there.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { reader: None, start: 0, end: bytes.len(), bytes }
    }

    fn ahead(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Gets more bytes to look at; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() < self.end + CHUNK {
            self.bytes.resize(self.end + CHUNK, 0);
        }
        let length = loop {
            match reader.read(&mut self.bytes[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += length;
        Ok(length > 0)
    }

    /// Whether that comes next. Waits for more only while it may.
    fn starts_with(&mut self, magic: &[u8]) -> io::Result<bool> {
        while self.ahead().len() < magic.len() && magic.starts_with(self.ahead()) {
            if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(self.ahead().starts_with(magic))
    }

    /// Whether the length of a chunk comes next, in a line of its own.
    fn starts_with_length(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.ahead();
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let after = bytes.get(digits).copied();
            if after.is_some() || digits > MAX_DIGITS || !self.fill()? {
                return Ok((1..=MAX_DIGITS).contains(&digits) && matches!(after, Some(b'\r' | b'\n' | b';')));
            }
        }
    }

    /// Whether the header of a zlib stream comes next.
    fn starts_like_zlib(&mut self) -> io::Result<bool> {
        while self.ahead().len() < 2 {
            if !self.fill()? {
                return Ok(false);
            }
        }
        let header = u16::from_be_bytes([self.ahead()[0], self.ahead()[1]]);
        Ok(header >> 8 & 0x0f == 8 && header.is_multiple_of(31))
    }

    /// Takes the head of an HTTP response, if that comes next.
    fn take_head(&mut self) -> io::Result<Option<HttpHead>> {
        if !self.starts_with(b"HTTP/")? {
            return Ok(None);
        }
        let mut looked = 0;
        let end = loop {
            if let Some(end) = end_of_head(self.ahead(), looked) {
                break end;
            }
            looked = self.ahead().len();
            if looked > MAX_HEAD {
                return Ok(None);
            }
            if !self.fill()? {
                break looked;
            }
        };
        let Some(head) = HttpHead::parse(&String::from_utf8_lossy(&self.ahead()[..end])) else {
            return Ok(None);
        };
        self.start += end;
        Ok(Some(head))
    }
}

/// Hexadecimal digits of the length of a chunk.
const MAX_DIGITS: usize = 15;

/// The end of the empty line that ends a head; there is none before `looked`.
fn end_of_head(bytes: &[u8], looked: usize) -> Option<usize> {
    let from = looked.saturating_sub(3);
    let after = |at: usize| match &bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    };
    let ends = (from..bytes.len()).filter(|&at| bytes[at] == b'\n');
    ends.into_iter().find_map(after)
}

impl HttpHead {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.strip_prefix("HTTP/")?.splitn(3, ' ');
        let version = words.next()?;
        let status = words.next().filter(|word| word.len() == 3)?.parse().ok()?;
        if !version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return None;
        }
        let mut head = Self { status, ..Self::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            let names = |word: &str| value.split(',').any(|item| item.trim().eq_ignore_ascii_case(word));
            match &*name {
                "transfer-encoding" => head.may_be_chunked |= names("chunked"),
                "content-encoding" => head.may_be_deflated |= names("deflate"),
                _ => {}
            }
            head.headers.push((name, value.to_owned()));
        }
        Some(head)
    }
}

impl Read for PeekReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for PeekReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.fill()?;
        }
        Ok(self.ahead())
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
    }
}

/// The chunks of a body as they went over the wire, undone.
struct ChunkedBody {
    reader: PeekReader,
    /// Bytes of the chunk that are still to come.
    left: u64,
    is_first: bool,
    is_done: bool,
}

impl ChunkedBody {
    fn new(reader: PeekReader) -> Self {
        Self { reader, left: 0, is_first: true, is_done: false }
    }

    fn next_length(&mut self) -> io::Result<u64> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.line()?;
        }
        let line = self.line()?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, "a chunk of the body has no length");
        u64::from_str_radix(digits, 16).map_err(damaged)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.by_ref().take(MAX_LENGTH_LINE).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body was cut off between chunks"));
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

impl Read for ChunkedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_done {
            self.left = self.next_length()?;
            self.is_done = self.left == 0;
        }
        if self.is_done || buffer.is_empty() {
            return Ok(0);
        }
        let max = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        match self.reader.read(&mut buffer[..max])? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body was cut off in a chunk")),
            length => {
                self.left -= length as u64;
                Ok(length)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Gives its bytes in pieces of one size.
    struct FixedPieces(Vec<u8>, usize, usize);

    impl Read for FixedPieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let end = (self.1 + self.2.min(buffer.len())).min(self.0.len());
            let length = (&self.0[self.1..end]).read(buffer)?;
            self.1 += length;
            Ok(length)
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn read(bytes: &[u8], expected: ExpectedWrapping) -> (Vec<u8>, Option<u16>, Vec<&'static str>) {
        let once = |size| {
            let found = unwrap(PeekReader::new(FixedPieces(bytes.to_vec(), 0, size)), expected)
                .expect("it can be read");
            let UnwrappedInput { mut reader, head, layers } = found;
            let mut inside = Vec::new();
            reader.read_to_end(&mut inside).expect("it can be read");
            (inside, head.map(|head| head.status), layers)
        };
        let whole = once(usize::MAX);
        for size in [1, 2, 7] {
            assert_eq!(once(size), whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn what_is_not_wrapped_stays_as_it_is() {
        for text in
            ["", "H", "HTTP", "HTTP/1.1 ok\n\nx", "HTTP/x 200\n\n", "data: {}\n\n", "\u{1f}", "1f\r\nx"]
        {
            assert_eq!(
                read(text.as_bytes(), ExpectedWrapping::Answer),
                (text.into(), None, vec![]),
                "{text:?}"
            );
        }
        let head = "HTTP/1.1 200 OK\r\n\r\nx";
        assert_eq!(read(head.as_bytes(), ExpectedWrapping::Text), (head.into(), None, vec![]));
    }

    #[test]
    fn wrappings_are_looked_through_in_any_order() {
        let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 307 Moved\r\nlocation: /\r\n\r\n\
            HTTP/2 200 \r\nTransfer-Encoding: gzip, chunked\r\ncontent-encoding: gzip\r\n\r\n";
        let body = gzip(b"data: 1\n\ndata: 2\n\n");
        let (first, second) = body.split_at(9);
        let mut chunked = head.as_bytes().to_vec();
        for piece in [first, second, b""] {
            chunked.extend(format!("{:X};x=y\r\n", piece.len()).bytes());
            chunked.extend(piece);
            chunked.extend(b"\r\n");
        }
        let inside = b"data: 1\n\ndata: 2\n\n".to_vec();
        let layers = vec!["http", "http", "http", "chunks", "gzip"];
        assert_eq!(read(&chunked, ExpectedWrapping::Answer), (inside.clone(), Some(200), layers));
        let twice = [gzip(&chunked[..40]), gzip(&chunked[40..])].concat();
        let layers = vec!["gzip", "http", "http", "http", "chunks", "gzip"];
        assert_eq!(read(&twice, ExpectedWrapping::Answer), (inside.clone(), Some(200), layers));
        // Chunks and compression that curl has undone already.
        let plain = [head.as_bytes(), &inside].concat();
        assert_eq!(read(&plain, ExpectedWrapping::Answer), (inside.clone(), Some(200), vec!["http"; 3]));
        let deflated = [b"HTTP/1.1 200\ncontent-encoding: deflate\n\n".to_vec(), zlib(&inside)].concat();
        assert_eq!(read(&deflated, ExpectedWrapping::Answer), (inside, Some(200), vec!["http", "deflate"]));
    }

    #[test]
    fn a_head_tells_its_status_even_without_a_body() {
        let head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n";
        let found = unwrap(PeekReader::of(head.to_vec()), ExpectedWrapping::Answer).expect("it can be read");
        let head = found.head.expect("a head");
        let retry_after = ("retry-after".to_owned(), "7".to_owned());
        assert_eq!((head.status, head.headers), (429, vec![retry_after]));
    }

    #[test]
    fn a_body_that_was_cut_is_an_error_after_what_came() {
        let wire = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc";
        let mut found =
            unwrap(PeekReader::of(wire.to_vec()), ExpectedWrapping::Answer).expect("it can be read");
        let mut inside = Vec::new();
        let error = found.reader.read_to_end(&mut inside).expect_err("it was cut");
        assert_eq!((&*inside, error.kind()), (&b"abc"[..], io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn what_we_cannot_unpack_is_named() {
        let refused = unwrap(PeekReader::of(b"\x28\xb5\x2f\xfd...".to_vec()), ExpectedWrapping::Text)
            .err()
            .expect("refused");
        assert!(refused.to_string().contains("zstd -dc"), "{refused}");
    }
}
