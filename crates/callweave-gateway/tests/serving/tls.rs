//! Upstreams over TLS: the trusted ones, and the treatment of others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::scripted_upstream::{Then, answered, said, stream, whole};
use crate::support::{chat, messages, post, responses};

/// An upstream over TLS whose certificate an authority of its own has signed.
struct Secure {
    port: u16,
    /// The certificate of the authority, in a file.
    authority: PathBuf,
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.authority);
    }
}

impl Secure {
    async fn start(answers: Vec<(String, Then)>) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        let issuer = Issuer::new(params, key);
        let own = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&own, &issuer).expect("a certificate");
        let private = PrivateKeyDer::try_from(own.serialize_der()).expect("a key");
        let config = ServerConfig::builder().with_no_client_auth();
        let config =
            config.with_single_cert(vec![leaf.der().clone()], private).expect("they belong together");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let file = std::env::temp_dir().join(format!("callweave-ca-{}-{port}.pem", std::process::id()));
        std::fs::write(&file, authority.pem()).expect("writable");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            for (answer, _) in answers {
                // A client that does not trust the certificate asks nothing.
                let mut stream = loop {
                    let Ok((stream, _)) = listener.accept().await else { return };
                    if let Ok(stream) = acceptor.accept(stream).await {
                        break stream;
                    }
                };
                let mut bytes = [0; 8192];
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { port, authority: file }
    }

    /// A gateway in front of it.
    fn gateway(&self, host: &str, config: &str, environment: &Environment<'_>) -> Arc<Gateway> {
        let config = format!(
            "default_upstream = \"far\"\n{config}\n[upstreams.far]\nbase_url = \"https://{host}:{}\"\nprotocol = \"openai-chat\"\nretries = 0",
            self.port
        );
        Gateway::new(Config::read(&config).expect("valid"), environment).expect("a gateway")
    }
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_where_it_is_named() {
    let frames = [said("over TLS"), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})];
    let far = Secure::start(vec![
        whole(200, &answered("over TLS")),
        stream(&frames, Then::Close),
        whole(200, &answered("over TLS")),
    ])
    .await;
    let file = far.authority.display().to_string();
    let named = far.gateway("localhost", &format!("ca_file = {file:?}"), &Environment::of(|_| None));
    let got = post(&named, "/v1/chat/completions", &chat("x", false)).await;
    assert!(got.status == 200 && got.text.contains("over TLS"), "{}", got.text);
    let got = post(&named, "/v1/messages", &messages("x", true)).await;
    assert!(got.text.contains("over TLS") && got.text.contains("message_stop"), "{}", got.text);
    let variable = |name: &str| (name == "SSL_CERT_FILE").then(|| file.clone());
    let by_variable = far.gateway("localhost", "", &Environment::of(variable));
    let got = post(&by_variable, "/v1/chat/completions", &chat("x", false)).await;
    assert!(got.status == 200 && got.text.contains("over TLS"), "{}", got.text);
}

#[tokio::test]
async fn whoever_is_not_trusted_is_not_asked() {
    let far = Secure::start(vec![whole(200, &answered("never"))]).await;
    let trusted = format!("ca_file = {:?}", far.authority.display().to_string());
    // An unknown authority, and a known one that has signed another name.
    for (host, config) in [("localhost", ""), ("127.0.0.1", trusted.as_str())] {
        let gateway = far.gateway(host, config, &Environment::of(|_| None));
        for is_streamed in [false, true] {
            let got = post(&gateway, "/v1/chat/completions", &chat("x", is_streamed)).await;
            let message = got.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(got.status == 502 && message.contains("certificate"), "{} {}", got.status, got.text);
            let got = post(&gateway, "/v1/messages", &messages("x", is_streamed)).await;
            assert_eq!((got.status, &got.json()["type"]), (502, &json!("error")), "{}", got.text);
            let got = post(&gateway, "/v1/responses", &responses("x", is_streamed)).await;
            assert_eq!((got.status, got.json()["error"]["message"].is_string()), (502, true), "{}", got.text);
        }
    }
}

#[tokio::test]
async fn a_file_without_certificates_is_a_problem_at_once() {
    let empty = std::env::temp_dir().join(format!("callweave-ca-{}-empty.pem", std::process::id()));
    std::fs::write(&empty, "nothing").expect("writable");
    for file in [empty.clone(), empty.with_extension("none")] {
        let config = Config::read(&format!("ca_file = {:?}", file.display().to_string())).expect("valid");
        let problem = Gateway::new(config, &Environment::of(|_| None)).err().expect("a problem").to_string();
        assert!(problem.contains("ca_file") && problem.contains("callweave-ca"), "{problem}");
    }
    std::fs::remove_file(&empty).expect("removable");
}

#[tokio::test]
async fn a_handshake_is_waited_for_as_long_as_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    let config = format!(
        "default_upstream = \"far\"\n[timeouts]\nconnect = 0.2\n[upstreams.far]\nbase_url = \"{url}\"\nretries = 0"
    );
    let gateway = crate::support::gateway(&config);
    let began = Instant::now();
    let got = post(&gateway, "/v1/messages", &messages("x", true)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((got.status, &got.json()["type"]), (504, &json!("error")), "{}", got.text);
}
