//! Messages of an AWS event stream, with right checksums.

/// One message; `headers` as they stand on the wire.
pub(crate) fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut message = ((16 + headers.len() + payload.len()) as u32).to_be_bytes().to_vec();
    message.extend((headers.len() as u32).to_be_bytes());
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message.extend(headers);
    message.extend(payload);
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message
}
