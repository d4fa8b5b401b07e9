//! Asks a model that writes its calls into its text, with async-openai: they come as calls.
//!
//! `cargo run -p callweave --features reqwest --example reqwest_client`

use std::io::{Read, Write};

use async_openai::middleware::{HttpRequestFactory, retry::OpenAIRetryLayer};
use async_openai::{Client, config::OpenAIConfig, error::OpenAIError};
use callweave::{exchange::ExchangePolicy, reqwest::ExchangeService};
use tower::{Layer, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::with_config(OpenAIConfig::new().with_api_base(serve()?).with_api_key("none"));
    let service = ExchangeService::new(reqwest::Client::new(), ExchangePolicy::default())?;
    let service = service_fn(move |request: HttpRequestFactory| {
        let service = service.clone();
        async move { Ok::<_, OpenAIError>(service.execute(request.build().await?).await?) }
    });
    let client = client.with_http_service(OpenAIRetryLayer::default().layer(service));
    let tools = r#"[{"type": "function", "function": {"name": "look"}}]"#;
    let request = serde_json::from_str(&format!(r#"{{"model": "m", "messages": [], "tools": {tools}}}"#))?;
    println!("{:?}", client.chat().create(request).await?.choices[0].message.tool_calls);
    Ok(())
}

/// A server whose model has no calls of its own. It answers once.
fn serve() -> std::io::Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        while stream.read(&mut [0; 4096])? == 4096 {}
        let call = "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>";
        let choice = format!(r#"{{"message": {{"content": "{call}"}}, "finish_reason": "stop"}}"#);
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n{{\"choices\": [{choice}]}}")
    });
    Ok(url)
}
