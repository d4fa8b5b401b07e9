//! Reads the body of a client's request, within limits.

use std::io::Read;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

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
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity" | b"") => Ok(bytes),
        Some(b"gzip" | b"x-gzip") => {
            unpack(flate2::read::MultiGzDecoder::new(&bytes[..]), limits.decompressed)
        }
        Some(b"deflate") => unpack(flate2::read::ZlibDecoder::new(&bytes[..]), limits.decompressed),
        Some(_) => {
            let what = "the request is compressed in a way that is not known here; use gzip, deflate or none";
            Err(Failure::invalid(what).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
    }
}

fn unpack(reader: impl Read, limit: usize) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    let read = reader.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::invalid(format!("the request cannot be decompressed: {error}")))?;
    match bytes.len() > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes.into()),
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
