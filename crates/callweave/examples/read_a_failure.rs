//! Tells what to do about an answer that failed, whoever failed and whatever the body looks like.
//!
//! `cargo run -p callweave --example read_a_failure`

use callweave::pipeline::decode;
use callweave::protocol::read_error;
use callweave::upstream::UpstreamError;

fn main() -> callweave::Result<()> {
    // A request that was refused: status, headers and body as they came.
    let body = br#"{"message": "Too many tokens, please wait before trying again."}"#;
    tell(&read_error(Some(429), [("retry-after", "3"), ("x-amzn-errortype", "ThrottlingException")], body));

    // A stream that broke off with an error inside.
    let stream = b"data: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n";
    let answer = decode(stream)?.into_result();
    if let Some(error) = answer.err().as_ref().and_then(callweave::Error::upstream) {
        tell(error);
    }
    Ok(())
}

fn tell(error: &UpstreamError<'_>) {
    let wait = error.retry_after.map_or(String::new(), |wait| format!(" after {} s", wait.as_secs()));
    let advice = if error.is_retryable() { format!("try again{wait}") } else { "change the request".into() };
    println!("{}: {} ({advice})", error.class.name(), error.message);
}
