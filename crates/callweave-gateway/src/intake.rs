//! Reads the body of a client's request, within limits.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ruzstd::decoding::StreamingDecoder;

use crate::config::{Limits, Timeouts};
use crate::failure::Failure;

/// Reads a body: all of it, decompressed.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: &Limits,
    timeouts: &Timeouts,
) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collected = tokio::time::timeout(timeouts.request, Limited::new(body, limits.body).collect()).await;
    let collected = collected.map_err(|_| {
        Failure::invalid("the request did not come in time").with_status(StatusCode::REQUEST_TIMEOUT)
    })?;
    let bytes = match collected {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_large(limits.body)),
        Err(error) => return Err(Failure::invalid(format!("the request broke off: {error}"))),
    };
    let encoding = headers.get(header::CONTENT_ENCODING).map_or(&b""[..], |value| value.as_bytes());
    let room = limits.decompressed as u64 + 1;
    let mut unpacked = Vec::new();
    let read = match encoding.to_ascii_lowercase().as_slice() {
        b"identity" | b"" => return Ok(bytes),
        b"gzip" | b"x-gzip" => MultiGzDecoder::new(&bytes[..]).take(room).read_to_end(&mut unpacked),
        b"deflate" => ZlibDecoder::new(&bytes[..]).take(room).read_to_end(&mut unpacked),
        b"zstd" => unpack_zstd(&bytes, room, &mut unpacked),
        _ => {
            let what = format!("the request is compressed in a way that is not known here; {KNOWN} are");
            let mut failure = Failure::invalid(what).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            failure.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(KNOWN));
            return Err(failure);
        }
    };
    read.map_err(|error| Failure::invalid(format!("the request cannot be decompressed: {error}")))?;
    match unpacked.len() > limits.decompressed {
        true => Err(too_large(limits.decompressed)),
        false => Ok(unpacked.into()),
    }
}

/// How requests may be compressed.
const KNOWN: &str = "gzip, deflate, zstd";

/// Unpacks one frame after the other, until there is no more room.
fn unpack_zstd(mut packed: &[u8], room: u64, unpacked: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let mut frame = StreamingDecoder::new(packed).map_err(io::Error::other)?;
        let left = room.saturating_sub(unpacked.len() as u64);
        frame.by_ref().take(left).read_to_end(unpacked)?;
        packed = frame.into_inner();
        if packed.is_empty() || unpacked.len() as u64 >= room {
            return Ok(unpacked.len());
        }
    }
}

fn too_large(limit: usize) -> Failure {
    let what = format!("the request is larger than {limit} bytes");
    Failure::invalid(what).with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http_body_util::Full;

    use super::*;

    async fn status(encoding: Option<&str>, body: Vec<u8>, limits: &Limits) -> Result<usize, u16> {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, encoding.parse().expect("a header"));
        }
        let read = read(&headers, Full::new(Bytes::from(body)), limits, &Timeouts::default()).await;
        read.map(|bytes| bytes.len()).map_err(|failure| failure.status().as_u16())
    }

    #[tokio::test]
    async fn bodies_are_taken_up_to_their_limits() {
        let limits = Limits { body: 100, decompressed: 1000, ..Limits::default() };
        assert_eq!(status(None, vec![b' '; 100], &limits).await, Ok(100));
        assert_eq!(status(None, vec![b' '; 101], &limits).await, Err(413));
        let packed = |length| {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            writer.write_all(&vec![b' '; length]).expect("memory");
            writer.finish().expect("memory")
        };
        assert_eq!(status(Some("gzip"), packed(1000), &limits).await, Ok(1000));
        assert_eq!(status(Some("gzip"), packed(1001), &limits).await, Err(413));
        assert_eq!(status(Some("gzip"), vec![1, 2, 3], &limits).await, Err(400));
        assert_eq!(status(Some("br"), vec![1], &limits).await, Err(415));
    }
}
