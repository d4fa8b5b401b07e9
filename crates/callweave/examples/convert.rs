//! Writes an answer of any protocol, streamed or whole, as a stream of another one, while it comes.
//!
//! `cargo run -p callweave --example convert -- anthropic-messages < FILE`

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};

use callweave::encode::EncodeOptions;
use callweave::protocol::Protocol;
use callweave::{Decoder, Event};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("name a protocol")?;
    let protocol = Protocol::named(&name).ok_or("no protocol has that name")?;
    let mut encoder = protocol.encoder(&EncodeOptions::normalized()).ok_or("that protocol is only read")?;
    let (mut decoder, mut bytes, mut out) = (Decoder::detect(), vec![0; 4096], Vec::new());
    loop {
        let count = stdin().read(&mut bytes)?;
        let mut sink = |event: Event<'_>| encoder.encode(&event, &mut out);
        match count {
            0 => decoder.finish(&mut sink)?,
            _ => decoder.push(&bytes[..count], &mut sink)?,
        }
        stdout().write_all(&out)?;
        out.clear();
        if count == 0 {
            return Ok(());
        }
    }
}
