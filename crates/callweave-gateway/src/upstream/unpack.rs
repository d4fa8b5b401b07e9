//! Responses that come compressed although the request did not allow that: they are decompressed piece by piece, within
//! a limit.

use std::io::{self, Read, Write};

use bytes::Bytes;
use callweave::exchange::UpstreamFault;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::StreamingDecoder;

/// Decompresses the body of a response.
pub(super) struct UnpackedBody {
    packing: PackingKind,
    limit: u64,
}

enum PackingKind {
    Gzip(MultiGzDecoder<BoundedBuffer>),
    Zlib(ZlibDecoder<BoundedBuffer>),
    Deflate(DeflateDecoder<BoundedBuffer>),
    /// Deflate with or without the head of zlib, decided by the first byte.
    Deflated,
    /// All that came, to be unpacked at its end.
    Zstd(Vec<u8>),
}

impl UnpackedBody {
    /// Returns the decompressor for a response with these headers; none if it is not compressed.
    pub(super) fn of(headers: &HeaderMap, limit: u64) -> Result<Option<Box<Self>>, UpstreamFault> {
        let Some(coding) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
        let coding = coding.to_str().unwrap_or("?").trim().to_ascii_lowercase();
        let packing = match coding.as_str() {
            "" | "identity" => return Ok(None),
            "gzip" | "x-gzip" => PackingKind::Gzip(MultiGzDecoder::new(BoundedBuffer::of(limit))),
            "deflate" => PackingKind::Deflated,
            "zstd" => PackingKind::Zstd(Vec::new()),
            _ => {
                let what =
                    format!("compressed its answer as {coding:?}, which nobody asked for or knows here");
                return Err(UpstreamFault::unusable(what));
            }
        };
        Ok(Some(Box::new(Self { packing, limit })))
    }

    /// Decompresses the next bytes; the output may still be empty.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, UpstreamFault> {
        if let (PackingKind::Deflated, Some(first)) = (&self.packing, bytes.first()) {
            let room = BoundedBuffer::of(self.limit);
            self.packing = match first & 0x0F == 8 {
                true => PackingKind::Zlib(ZlibDecoder::new(room)),
                false => PackingKind::Deflate(DeflateDecoder::new(room)),
            };
        }
        let limit = self.limit;
        let unpacked = match &mut self.packing {
            PackingKind::Gzip(decoder) => write(decoder, bytes, MultiGzDecoder::get_mut),
            PackingKind::Zlib(decoder) => write(decoder, bytes, ZlibDecoder::get_mut),
            PackingKind::Deflate(decoder) => write(decoder, bytes, DeflateDecoder::get_mut),
            PackingKind::Deflated => Ok(Vec::new()),
            PackingKind::Zstd(all) if (all.len() + bytes.len()) as u64 > limit => Err(full()),
            PackingKind::Zstd(all) => {
                all.extend_from_slice(bytes);
                Ok(Vec::new())
            }
        };
        unpacked.map(Bytes::from).map_err(|error| self.fault(&error))
    }

    /// Returns the remaining output after the last bytes. A truncated body has not ended.
    pub(super) fn finish(&mut self) -> Result<Bytes, UpstreamFault> {
        let unpacked = match &mut self.packing {
            PackingKind::Gzip(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            PackingKind::Zlib(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            PackingKind::Deflate(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            PackingKind::Deflated => Ok(Vec::new()),
            PackingKind::Zstd(all) if all.is_empty() => Ok(Vec::new()),
            PackingKind::Zstd(all) => {
                let mut room = BoundedBuffer::of(self.limit);
                unpack_zstd(all, &mut room).map(|()| room.take())
            }
        };
        unpacked.map(Bytes::from).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &io::Error) -> UpstreamFault {
        match error.kind() {
            io::ErrorKind::StorageFull => super::too_large(self.limit),
            _ => UpstreamFault::unusable(format!("sent an answer that cannot be decompressed: {error}")),
        }
    }
}

/// Has a decoder unpack bytes, and takes what came out.
fn write<D: Write>(
    decoder: &mut D,
    bytes: &[u8],
    room: fn(&mut D) -> &mut BoundedBuffer,
) -> io::Result<Vec<u8>> {
    decoder.write_all(bytes)?;
    decoder.flush()?;
    Ok(room(decoder).take())
}

/// Unpacks one frame after the other.
fn unpack_zstd(mut packed: &[u8], room: &mut BoundedBuffer) -> io::Result<()> {
    while !packed.is_empty() {
        let mut frame = StreamingDecoder::new(packed).map_err(io::Error::other)?;
        io::copy(frame.by_ref(), room)?;
        packed = frame.into_inner();
    }
    Ok(())
}

/// A buffer with a maximum size.
struct BoundedBuffer {
    bytes: Vec<u8>,
    left: u64,
}

impl BoundedBuffer {
    fn of(limit: u64) -> Self {
        Self { bytes: Vec::new(), left: limit }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(full)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
