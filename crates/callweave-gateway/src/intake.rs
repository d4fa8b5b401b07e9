//! Reads the body of a client's request, within limits.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use callweave::exchange;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use ruzstd::decoding::StreamingDecoder;

use crate::config::{LimitsConfig, TimeoutsConfig};
use crate::failure::RequestFailure;
use crate::heavy;
use crate::in_flight::{BytesInFlight, HeldRequestBytes, STEP};

/// Reads a body: all of it, decompressed. Its bytes count as in flight while what holds them is there.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: &LimitsConfig,
    timeouts: &TimeoutsConfig,
    in_flight: &Arc<BytesInFlight>,
) -> Result<(Bytes, HeldRequestBytes), RequestFailure>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let encoding = ContentCoding::of(headers)?;
    let held = in_flight.hold();
    let collected = tokio::time::timeout(timeouts.request, collect(body, limits.body, &held)).await;
    let bytes = collected.map_err(|_| {
        RequestFailure::invalid("the request did not come in time").with_status(StatusCode::REQUEST_TIMEOUT)
    })??;
    let bytes = match encoding {
        None => bytes,
        // A few bytes may be many.
        Some(encoding) => heavy::run(usize::MAX, || {
            let mut unpacking = UnpackingBody { packed: &bytes, unpacked: Vec::new(), limits, held: &held };
            unpacking.unpack(encoding)?;
            Ok::<_, RequestFailure>(unpacking.unpacked.into())
        })?,
    };
    held.shrink_to(bytes.len());
    Ok((bytes, held))
}

/// The bytes as they come. A body that says that it is too long is not read at all.
async fn collect<B>(body: B, most: usize, held: &HeldRequestBytes) -> Result<Bytes, RequestFailure>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(too_large(most, "body"));
    }
    let declared = hint.exact().and_then(|length| usize::try_from(length).ok());
    // Copied, since a piece may be a small part of the buffer that it was read into; but not if it is long, and all.
    let (mut bytes, mut whole) = (Vec::new(), None);
    loop {
        held.reach(declared.unwrap_or(most).min(bytes.len() + STEP))?;
        let Some(frame) = body.frame().await else { return Ok(whole.unwrap_or_else(|| bytes.into())) };
        let frame = frame.map_err(|error| {
            let error: Box<dyn std::error::Error + Send + Sync> = error.into();
            RequestFailure::invalid(format!("the request broke off: {error}"))
        })?;
        let piece = frame.into_data().unwrap_or_default();
        let length = bytes.len() + piece.len();
        if length > most {
            return Err(too_large(most, "body"));
        }
        held.reach(length)?;
        if declared == Some(piece.len()) && piece.len() >= LONG {
            whole = Some(piece);
            continue;
        }
        if length > bytes.capacity() {
            let room = declared.unwrap_or(most).min(2 * length).max(length);
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(&piece);
    }
}

/// The minimum length of a long body; shorter ones are copied at next to no cost.
const LONG: usize = 8 << 10;

/// The compression of a request.
#[derive(Clone, Copy)]
enum ContentCoding {
    Gzip,
    Deflate,
    Zstd,
}

/// The supported compressions of requests.
const KNOWN: &str = "gzip, deflate, zstd";

impl ContentCoding {
    /// Returns the compression that the headers name, if any.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, RequestFailure> {
        let encoding = headers.get(header::CONTENT_ENCODING).map_or(&b""[..], |value| value.as_bytes());
        match encoding.to_ascii_lowercase().as_slice() {
            b"identity" | b"" => Ok(None),
            b"gzip" | b"x-gzip" => Ok(Some(Self::Gzip)),
            b"deflate" => Ok(Some(Self::Deflate)),
            b"zstd" => Ok(Some(Self::Zstd)),
            _ => {
                let what = format!("the request is compressed in a way that is not known here; {KNOWN} are");
                let mut failure =
                    RequestFailure::invalid(what).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
                failure.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(KNOWN));
                Err(failure)
            }
        }
    }
}

/// A body while it is decompressed.
struct UnpackingBody<'l> {
    packed: &'l [u8],
    unpacked: Vec<u8>,
    limits: &'l LimitsConfig,
    held: &'l HeldRequestBytes,
}

/// The maximum number of bytes for which any compression ratio is allowed.
const ANY_RATIO: usize = 1 << 20;

impl UnpackingBody<'_> {
    fn unpack(&mut self, encoding: ContentCoding) -> Result<(), RequestFailure> {
        let mut rest = self.packed;
        for count in 1.. {
            if count > self.limits.members {
                return Err(exchange::too_large(
                    self.limits.members,
                    "compressed members or frames",
                    "members",
                )
                .into());
            }
            rest = match encoding {
                ContentCoding::Gzip => {
                    let mut member = GzDecoder::new(rest);
                    self.read(&mut member)?;
                    member.into_inner()
                }
                ContentCoding::Deflate => return self.read(&mut ZlibDecoder::new(rest)),
                ContentCoding::Zstd => {
                    let mut frame = StreamingDecoder::new(rest).map_err(broken)?;
                    self.read(&mut frame)?;
                    frame.into_inner()
                }
            };
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Unpacks one member, step by step.
    fn read(&mut self, member: &mut impl Read) -> Result<(), RequestFailure> {
        let LimitsConfig { decompressed, ratio, .. } = *self.limits;
        loop {
            self.held.reach(self.packed.len() + self.unpacked.len() + STEP)?;
            let count = member.by_ref().take(STEP as u64).read_to_end(&mut self.unpacked).map_err(broken)?;
            let length = self.unpacked.len();
            if length > decompressed {
                return Err(too_large(decompressed, "decompressed"));
            }
            if length > ANY_RATIO && length / ratio.max(1) > self.packed.len() {
                return Err(
                    exchange::too_large(ratio, "bytes for each that was sent compressed", "ratio").into()
                );
            }
            if count < STEP {
                return Ok(());
            }
        }
    }
}

fn broken(error: impl std::fmt::Display) -> RequestFailure {
    RequestFailure::invalid(format!("the request cannot be decompressed: {error}"))
}

fn too_large(most: usize, key: &str) -> RequestFailure {
    exchange::too_large(most, "bytes", key).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http_body_util::Full;

    use super::*;

    async fn status(encoding: Option<&str>, body: Vec<u8>, limits: &LimitsConfig) -> Result<usize, u16> {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, encoding.parse().expect("a header"));
        }
        let in_flight = BytesInFlight::new(10 << 20);
        let body = Full::new(Bytes::from(body));
        let read = read(&headers, body, limits, &TimeoutsConfig::default(), &in_flight).await;
        read.map(|(bytes, _)| bytes.len()).map_err(|failure| failure.status().as_u16())
    }

    fn packed(length: usize) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        writer.write_all(&vec![b' '; length]).expect("memory");
        writer.finish().expect("memory")
    }

    #[tokio::test]
    async fn bodies_are_taken_up_to_their_limits() {
        let limits = LimitsConfig { body: 100, decompressed: 1000, ..LimitsConfig::default() };
        assert_eq!(status(None, vec![b' '; 100], &limits).await, Ok(100));
        assert_eq!(status(None, vec![b' '; 101], &limits).await, Err(413));
        assert_eq!(status(Some("gzip"), packed(1000), &limits).await, Ok(1000));
        assert_eq!(status(Some("gzip"), packed(1001), &limits).await, Err(413));
        assert_eq!(status(Some("gzip"), vec![1, 2, 3], &limits).await, Err(400));
        assert_eq!(status(Some("br"), vec![1], &limits).await, Err(415));
    }

    #[tokio::test]
    async fn a_long_body_that_comes_in_one_piece_is_kept_as_it_came() {
        let (headers, in_flight) = (HeaderMap::new(), BytesInFlight::new(1 << 20));
        for (length, is_kept) in [(LONG - 1, false), (LONG, true)] {
            let piece = Bytes::from(vec![b' '; length]);
            let body = Full::new(piece.clone());
            let read =
                read(&headers, body, &LimitsConfig::default(), &TimeoutsConfig::default(), &in_flight).await;
            let (bytes, _held) = read.expect("it is short enough");
            assert_eq!((bytes.len(), bytes.as_ptr() == piece.as_ptr()), (length, is_kept));
        }
    }

    #[tokio::test]
    async fn bodies_are_compressed_by_so_much_and_in_so_many_members() {
        let limits = LimitsConfig { ratio: 50, members: 3, ..LimitsConfig::default() };
        assert_eq!(status(Some("gzip"), packed(ANY_RATIO), &limits).await, Ok(ANY_RATIO));
        assert_eq!(status(Some("gzip"), packed(2 * ANY_RATIO), &limits).await, Err(413));
        let ample = LimitsConfig { ratio: 5000, ..LimitsConfig::default() };
        assert_eq!(status(Some("gzip"), packed(2 * ANY_RATIO), &ample).await, Ok(2 * ANY_RATIO));
        assert_eq!(status(Some("gzip"), packed(1).repeat(3), &limits).await, Ok(3));
        assert_eq!(status(Some("gzip"), packed(1).repeat(4), &limits).await, Err(413));
        // Decompressed bytes count as in flight.
        let ample = LimitsConfig { ratio: 5000, ..LimitsConfig::default() };
        assert_eq!(status(Some("gzip"), packed(11 << 20), &ample).await, Err(503));
    }
}
