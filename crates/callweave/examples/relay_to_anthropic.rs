//! Relays a chat client to Anthropic: prints what is sent there, then its response (here a recorded one) as chat chunks.
//!
//! `echo '{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}' | cargo run -p callweave --example relay_to_anthropic -- FILE`

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write, stdin, stdout};

use callweave::encode::EncodeOptions;
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT};
use callweave::request::{RequestOptions, ReverseMappingStage};
use callweave::{Decoder, Event};

fn main() -> Result<(), Box<dyn Error>> {
    let body = std::io::read_to_string(stdin())?.parse()?;
    let sent = OPENAI_CHAT.translate_request(body, &ANTHROPIC_MESSAGES, &RequestOptions::default())?;
    println!("{}", sent.body);
    sent.losses.iter().for_each(|loss| eprintln!("lost: {loss}"));

    let mut response = File::open(std::env::args().nth(1).ok_or("name a recorded response")?)?;
    let mut encoder = OPENAI_CHAT.encoder(&EncodeOptions::normalized()).ok_or("chat is written")?;
    let (mut decoder, mut undo) = (Decoder::detect(), ReverseMappingStage::new(&sent));
    let (mut bytes, mut out) = (vec![0; 4096], Vec::new());
    loop {
        let count = response.read(&mut bytes)?;
        let mut write = |event: Event<'_>| encoder.encode(&event, &mut out);
        let mut sink = |event: Event<'_>| undo.push(event, &mut write);
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
