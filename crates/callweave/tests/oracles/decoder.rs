//! Decoding: the grammar holds, any split gives the same events, nothing emitted is taken back, and a frame of a known
//! shape gives the events of a full reading.
//!
//! The first byte chooses the protocol, the next two a split; the rest is the stream.

use callweave::event::Event;
use callweave::pipeline::{Decoder, DecoderBuilder};
use callweave::protocol::TABLE;

use super::laws::{check_prefix, decode_truncated};

/// Checks one input.
pub(crate) fn check(input: &[u8]) {
    let Some((&[choice, high, low], bytes)) = input.split_first_chunk::<3>() else { return };
    // One more than there are protocols: to be found out.
    let protocol = TABLE.get(usize::from(choice) % (TABLE.len() + 1)).copied();
    let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
    let whole = decode_truncated(protocol, bytes, &[]);
    assert!(whole.faults.is_empty(), "grammar: {:#?}\n{:#?}", whole.faults, whole.events);
    let every: Vec<usize> = if bytes.len() < 4096 { (1..bytes.len()).collect() } else { Vec::new() };
    for cuts in [vec![at], vec![at / 2, at], every] {
        let cut = decode_truncated(protocol, bytes, &cuts);
        assert_eq!(cut.events, whole.events, "split at {:?}…", &cuts[..cuts.len().min(3)]);
        assert_eq!(cut.error, whole.error, "split at {:?}…", &cuts[..cuts.len().min(3)]);
    }
    let prefix = decode_truncated(protocol, &bytes[..at], &[]);
    assert!(prefix.faults.is_empty(), "grammar of a prefix: {:#?}\n{:#?}", prefix.faults, prefix.events);
    check_prefix("input", at, &prefix, &whole);
    let builder = || protocol.map_or_else(Decoder::builder, |protocol| Decoder::builder().protocol(protocol));
    assert_eq!(events(builder(), bytes), events(builder().read_all(), bytes), "frames of a known shape");
    serde_json::to_string(&whole.message).expect("messages serialise");
}

fn events(builder: DecoderBuilder, bytes: &[u8]) -> Vec<Event<'static>> {
    let (mut decoder, mut events) = (builder.build(), Vec::new());
    let _ = decoder.push(bytes, &mut events);
    let _ = decoder.finish(&mut events);
    events
}
