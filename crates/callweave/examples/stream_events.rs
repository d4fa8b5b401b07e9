//! Prints the text of an answer while it comes over the network, here from a stream of recorded reads.
//!
//! `cargo run -p callweave --features async --example stream_events -- FILE`

use std::error::Error;

use callweave::accumulator::Accumulator;
use callweave::event::{EventKind, Sink};
use callweave::stream::EventStream;
use futures::executor::block_on;
use futures::stream;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the file of a recorded answer")?;
    let bytes = std::fs::read(path)?;
    // Any stream of results of bytes will do: the body of a response, in whatever runtime.
    let reads = stream::iter(bytes.chunks(100).map(Ok::<_, std::io::Error>));
    block_on(async {
        let (mut events, mut answer) = (EventStream::new(reads), Accumulator::new());
        while let Some(event) = events.lend().await {
            let event = event?;
            if let EventKind::Delta { text, .. } = &event.body {
                print!("{text}");
            }
            answer.put(event);
        }
        println!("\n{} calls", answer.message().tool_calls().count());
        Ok(())
    })
}
