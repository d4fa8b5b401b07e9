//! Framing in steady state allocates nothing: frames that lie complete in a push are borrowed from it, and frames that
//! its end splits are kept in buffers that are reused.

#[path = "support/aws.rs"]
mod aws;

use allocation_counter::measure;
use callweave::accumulator::Accumulator;
use callweave::framing::{Frame, Framer, Framing, StreamLimits};
use callweave::pipeline::Decoder;
use callweave::protocol::OPENAI_CHAT;

/// Pushes `pieces` over and over and counts the allocations of all rounds but the first.
fn allocations(mut framer: Framer, pieces: &[&[u8]]) -> u64 {
    let mut frames = 0_usize;
    let mut round = |framer: &mut Framer| {
        for piece in pieces {
            framer
                .push(piece, &mut |frame: Frame<'_>| frames += frame.data.len().min(1))
                .expect("sound input");
        }
    };
    round(&mut framer);
    let counted = measure(|| {
        for _ in 0..1000 {
            round(&mut framer);
        }
    });
    assert!(frames >= 1000, "only {frames} frames came");
    counted.count_total
}

fn aws_message(payload: &[u8]) -> Vec<u8> {
    aws::message(b"\x0B:event-type\x07\x00\x05chunk", payload)
}

#[test]
fn steady_state_allocates_nothing() {
    let message = aws_message(b"{\"delta\":{\"text\":\"gr\xC3\xB6\xC3\x9Fer\"}}");
    let inputs: [(Framing, &[u8]); 6] = [
        (Framing::Sse, b"event: delta\nid: 1\ndata: {\"text\":\"gr\xC3\xB6\xC3\x9Fer\"}\n\n: ping\n\n"),
        (Framing::Sse, b"data: several\r\ndata: lines\r\n\r\nerror: e\r\n\r\n"),
        (Framing::JsonLines, b"{\"message\":{\"content\":\"a\"}}\r\n"),
        (Framing::JsonValues, b"{\"a\": {\"b\": \"\\\"}\"}}\n"),
        (Framing::JsonValues, b"[{\"a\": 1}\n,\r\n{\"b\": [2]}]\n"),
        (Framing::AwsEventStream, &message),
    ];
    for (framing, input) in inputs {
        let framer = || Framer::new(framing, StreamLimits::default());
        assert_eq!(allocations(framer(), &[input]), 0, "{framing}: whole frames");
        for cut in 1..input.len() {
            let pieces = [&input[..cut], &input[cut..]];
            assert_eq!(allocations(framer(), &pieces), 0, "{framing}: cut at {cut}");
        }
        let bytes: Vec<_> = input.chunks(1).collect();
        assert_eq!(allocations(framer(), &bytes), 0, "{framing}: byte by byte");
    }
}

/// The data of a frame lies where it was pushed.
#[test]
fn whole_frames_are_borrowed_from_the_push() {
    let message = aws_message(b"{}");
    let inputs: [(Framing, &[u8]); 4] = [
        (Framing::Sse, b"event: a\ndata: {}\n\n"),
        (Framing::JsonLines, b"{}\n"),
        (Framing::JsonValues, b"[{},"),
        (Framing::AwsEventStream, &message),
    ];
    for (framing, input) in inputs {
        let mut is_borrowed = false;
        let pushed = input.as_ptr_range();
        Framer::new(framing, StreamLimits::default())
            .push(input, &mut |frame: Frame<'_>| is_borrowed = pushed.contains(&frame.data.as_ptr()))
            .expect("sound input");
        assert!(is_borrowed, "{framing}");
    }
}

/// A body that comes complete is read where it stands; while it waits, because its line may go on, only its text is
/// held.
#[test]
fn a_whole_body_is_held_once_at_most() {
    let numbers = "1,".repeat(300_000);
    let one_line = format!(
        r#"{{"object":"chat.completion","obfuscation":[{numbers}1],"choices":[{{"message":{{"content":"Hi"}}}}]}}"#
    );
    let lines = format!(
        "{{\n\"object\":\"chat.completion\",\"obfuscation\":\"{}\",\"choices\":[{{\"message\":{{\"content\":\"Hi\"}}}}]}}",
        "x".repeat(one_line.len())
    );
    for (body, most) in [(&one_line, one_line.len() + 10_000), (&lines, 10_000)] {
        let (mut decoder, mut message) = (Decoder::new(&OPENAI_CHAT), Accumulator::new());
        let pushed = measure(|| decoder.push(body.as_bytes(), &mut message).expect("a body"));
        assert!(pushed.bytes_current <= most as i64, "{} of {most} are held", pushed.bytes_current);
        decoder.finish(&mut message).expect("a body");
        assert_eq!(message.message().text(), "Hi");
    }
    let (mut decoder, mut message) = (Decoder::new(&OPENAI_CHAT), Accumulator::new());
    let taken = measure(|| decoder.push(lines.as_bytes(), &mut message).expect("a body"));
    assert!(taken.bytes_max < 100_000, "{} are taken", taken.bytes_max);
}
