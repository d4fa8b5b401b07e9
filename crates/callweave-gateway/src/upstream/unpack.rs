//! Answers that come compressed although nobody asked for that: they are unpacked piece by piece, within a limit.

use std::io::{self, Read, Write};

use bytes::Bytes;
use callweave::exchange::UpstreamFault;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::StreamingDecoder;

/// Unpacks the body of an answer.
pub(super) struct Unpack {
    packing: Packing,
    limit: u64,
}

enum Packing {
    Gzip(MultiGzDecoder<Room>),
    Zlib(ZlibDecoder<Room>),
    Deflate(DeflateDecoder<Room>),
    /// Deflate with or without the head of zlib: the first byte tells.
    Deflated,
    /// All that came, to be unpacked at its end.
    Zstd(Vec<u8>),
}

impl Unpack {
    /// What unpacks the answer that has these headers; nothing if it is not packed.
    pub(super) fn of(headers: &HeaderMap, limit: u64) -> Result<Option<Box<Self>>, UpstreamFault> {
        let Some(coding) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
        let coding = coding.to_str().unwrap_or("?").trim().to_ascii_lowercase();
        let packing = match coding.as_str() {
            "" | "identity" => return Ok(None),
            "gzip" | "x-gzip" => Packing::Gzip(MultiGzDecoder::new(Room::of(limit))),
            "deflate" => Packing::Deflated,
            "zstd" => Packing::Zstd(Vec::new()),
            _ => {
                let what =
                    format!("compressed its answer as {coding:?}, which nobody asked for or knows here");
                return Err(UpstreamFault::unusable(what));
            }
        };
        Ok(Some(Box::new(Self { packing, limit })))
    }

    /// What is in the next bytes; it may be nothing yet.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, UpstreamFault> {
        if let (Packing::Deflated, Some(first)) = (&self.packing, bytes.first()) {
            let room = Room::of(self.limit);
            self.packing = match first & 0x0F == 8 {
                true => Packing::Zlib(ZlibDecoder::new(room)),
                false => Packing::Deflate(DeflateDecoder::new(room)),
            };
        }
        let limit = self.limit;
        let unpacked = match &mut self.packing {
            Packing::Gzip(decoder) => write(decoder, bytes, MultiGzDecoder::get_mut),
            Packing::Zlib(decoder) => write(decoder, bytes, ZlibDecoder::get_mut),
            Packing::Deflate(decoder) => write(decoder, bytes, DeflateDecoder::get_mut),
            Packing::Deflated => Ok(Vec::new()),
            Packing::Zstd(all) if (all.len() + bytes.len()) as u64 > limit => Err(full()),
            Packing::Zstd(all) => {
                all.extend_from_slice(bytes);
                Ok(Vec::new())
            }
        };
        unpacked.map(Bytes::from).map_err(|error| self.fault(&error))
    }

    /// What is left when no more bytes come. Who was cut off has not ended.
    pub(super) fn finish(&mut self) -> Result<Bytes, UpstreamFault> {
        let unpacked = match &mut self.packing {
            Packing::Gzip(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            Packing::Zlib(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            Packing::Deflate(decoder) => decoder.try_finish().map(|()| decoder.get_mut().take()),
            Packing::Deflated => Ok(Vec::new()),
            Packing::Zstd(all) if all.is_empty() => Ok(Vec::new()),
            Packing::Zstd(all) => {
                let mut room = Room::of(self.limit);
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
fn write<D: Write>(decoder: &mut D, bytes: &[u8], room: fn(&mut D) -> &mut Room) -> io::Result<Vec<u8>> {
    decoder.write_all(bytes)?;
    decoder.flush()?;
    Ok(room(decoder).take())
}

/// Unpacks one frame after the other.
fn unpack_zstd(mut packed: &[u8], room: &mut Room) -> io::Result<()> {
    while !packed.is_empty() {
        let mut frame = StreamingDecoder::new(packed).map_err(io::Error::other)?;
        io::copy(frame.by_ref(), room)?;
        packed = frame.into_inner();
    }
    Ok(())
}

/// Takes so much, and no more.
struct Room {
    bytes: Vec<u8>,
    left: u64,
}

impl Room {
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

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(full)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
