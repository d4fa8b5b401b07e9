//! A driver of exchanges without I/O: it plays an upstream's output and keeps the client's response. On the way it
//! checks that the exchange reports its next step consistently.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use callweave::event::{Event, EventKind, TokenCounts};
use callweave::exchange::http::ClientEndpoint;
use callweave::exchange::{
    CallOutcome, Exchange, ExchangeEngine, ExchangeResult, HttpRequest, IncomingHead, NextStep,
    OutgoingRequest, UpstreamFault, UpstreamRefusal,
};
use callweave::message::Message;
use callweave::protocol::Protocol;

use super::laws::decode_truncated;

/// A response of an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
}

/// One thing that an upstream does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    /// Nothing comes for longer than any wait.
    Silence,
}

/// The end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Finish,
    Fail,
}

impl Reply {
    /// A success with these bytes, split at these places.
    pub(crate) fn cut(bytes: &[u8], cuts: &[usize], end: End) -> Self {
        let mut from = 0;
        let mut steps = Vec::new();
        for &to in cuts.iter().chain([&bytes.len()]) {
            steps.push(Step::Bytes(bytes[from..to].to_vec()));
            from = to;
        }
        Self { status: 200, headers: Vec::new(), steps, end }
    }

    /// A refusal with these words.
    pub(crate) fn refused(status: u16, body: &str) -> Self {
        Self { status, ..Self::cut(body.as_bytes(), &[], End::Finish) }
    }
}

/// A client's response, and what the exchange reports of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) error: Option<String>,
    pub(crate) is_broken: bool,
    pub(crate) outcomes: Vec<CallOutcome>,
    pub(crate) usage: TokenCounts,
    pub(crate) is_interrupted: bool,
    /// The number of requests that the upstream got.
    pub(crate) asked: usize,
}

/// A client: its protocol, whether it streams, and by which framing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) query: Option<&'static str>,
    pub(crate) is_streamed: bool,
}

/// Every client protocol, streaming and not; Gemini's streams in both framings.
pub(crate) const CLIENTS: [Client; 11] = [
    Client { name: "chat, streamed", path: "/chat/completions", query: None, is_streamed: true },
    Client { name: "chat", path: "/chat/completions", query: None, is_streamed: false },
    Client { name: "responses, streamed", path: "/responses", query: None, is_streamed: true },
    Client { name: "responses", path: "/responses", query: None, is_streamed: false },
    Client { name: "messages, streamed", path: "/messages", query: Some("beta=true"), is_streamed: true },
    Client { name: "messages", path: "/messages", query: None, is_streamed: false },
    Client {
        name: "gemini, streamed",
        path: "/models/MODEL:streamGenerateContent",
        query: Some("alt=sse"),
        is_streamed: true,
    },
    Client {
        name: "gemini, an array",
        path: "/models/MODEL:streamGenerateContent",
        query: None,
        is_streamed: true,
    },
    Client { name: "gemini", path: "/models/MODEL:generateContent", query: None, is_streamed: false },
    Client { name: "ollama, streamed", path: "/api/chat", query: None, is_streamed: true },
    Client { name: "ollama", path: "/api/chat", query: None, is_streamed: false },
];

impl Client {
    pub(crate) fn route(&self, model: &str) -> ClientEndpoint {
        ClientEndpoint::find(&self.path.replace("MODEL", model)).expect("a path of a client")
    }

    pub(crate) fn protocol(&self) -> &'static Protocol {
        self.route("m").protocol
    }

    /// A request of this client with a body of its protocol.
    pub(crate) fn incoming(&self, model: &str, body: &[u8], id: &str) -> IncomingHead {
        IncomingHead::new(self.route(model), body, id).query(self.query)
    }
}

impl Got {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The message that a client of the protocol reads.
    pub(crate) fn message(&self, protocol: &'static Protocol) -> Message {
        decode_truncated(Some(protocol), &self.body, &[]).message
    }

    /// The same without its bytes, and the events that a client reads: streams may be grouped otherwise. Complete bodies
    /// stay as they are, but for blanks behind them, which are not waited for where they are relayed.
    pub(crate) fn read(mut self, client: &Client) -> (Self, Vec<Event<'static>>) {
        if !client.is_streamed || self.status != 200 {
            self.body.truncate(self.body.trim_ascii_end().len());
            return (self, Vec::new());
        }
        let mut decoded = decode_truncated(Some(client.protocol()), &self.body, &[]);
        for event in &mut decoded.events {
            event.source = Default::default();
            if let EventKind::Notice(notice) = &mut event.body {
                notice.offset = 0;
            }
        }
        // A relay passes on what came together with the end, but waits for nothing behind it.
        let end = decoded.events.iter().position(|event| event.body == EventKind::End);
        decoded.events.truncate(end.map_or(decoded.events.len(), |end| end + 1));
        self.body.clear();
        (self, decoded.events)
    }
}

/// Drives an exchange to its end.
pub(crate) fn drive(
    engine: &Arc<ExchangeEngine>,
    incoming: IncomingHead,
    answer: impl FnMut(&HttpRequest) -> Reply,
) -> ExchangeResult<Got> {
    Ok(run(engine.open(incoming)?, answer))
}

/// The same, of an exchange that is open.
pub(crate) fn run(mut exchange: Exchange, mut answer: impl FnMut(&HttpRequest) -> Reply) -> Got {
    let request = Arc::clone(exchange.incoming());
    let (mut steps, mut end) = (Vec::new().into_iter(), End::Finish);
    let (mut head, mut body) = (None, Vec::new());
    let (mut asked, mut is_interrupted) = (0, false);
    loop {
        match exchange.next() {
            NextStep::Over => break,
            NextStep::Interrupt => {
                is_interrupted = true;
                exchange.interrupt();
                assert_eq!(exchange.next(), NextStep::Over, "after an interrupt");
            }
            NextStep::Send => match exchange.take_outgoing() {
                None => assert_eq!(exchange.next(), NextStep::Over, "nothing to send, but not over"),
                Some(OutgoingRequest::Request(request)) => {
                    asked += 1;
                    assert!(asked < 20, "asks for ever");
                    assert!(exchange.take_outgoing().is_none(), "sends one request twice");
                    assert_eq!(exchange.next(), NextStep::Read(None), "after a request");
                    let Reply { status, headers, steps: of_reply, end: of_end } = answer(&request);
                    if (200..300).contains(&status) {
                        exchange.accept(headers);
                        (steps, end) = (of_reply.into_iter(), of_end);
                    } else {
                        let mut refusal = UpstreamRefusal::new(status);
                        refusal.headers = headers;
                        for step in of_reply {
                            if let Step::Bytes(bytes) = step {
                                refusal.body.extend(bytes);
                            }
                        }
                        exchange.refuse(&refusal);
                        assert_eq!(exchange.next(), NextStep::Over, "after a refusal");
                    }
                }
                Some(other) => panic!("an outgoing that no test knows: {other:?}"),
            },
            NextStep::Read(grace) => match steps.next() {
                Some(Step::Bytes(bytes)) => exchange.push(&bytes),
                Some(Step::Silence) => {
                    if grace.is_some() {
                        exchange.silence();
                        assert!(!matches!(exchange.next(), NextStep::Read(_)), "reads on after the grace");
                    } else if head.is_some() && exchange.may_ping() {
                        body.extend_from_slice(request.pings()[usize::from(!body.is_empty())].as_bytes());
                    }
                }
                None => {
                    match end {
                        End::Finish => exchange.finish(),
                        End::Fail => exchange.fail(&UpstreamFault::lost("lost the connection")),
                    }
                    assert!(!matches!(exchange.next(), NextStep::Read(_)), "reads on after the end");
                }
            },
        }
        if head.is_none() && exchange.is_ready() {
            head = Some(exchange.head().clone());
        }
        if head.is_some() {
            body.extend(exchange.take_bytes());
        }
        let is_over = matches!(exchange.next(), NextStep::Over | NextStep::Interrupt);
        assert!(body.is_empty() || is_over || request.is_streamed(), "a complete body before its end");
    }
    let head = head.expect("an exchange that is over is ready");
    let header = |(name, value): &(_, Vec<u8>)| -> (String, String) {
        let name: &std::borrow::Cow<'static, str> = name;
        (name.to_string(), String::from_utf8_lossy(value).into_owned())
    };
    let got = Got {
        status: head.status,
        headers: head.headers.iter().map(header).collect(),
        body,
        error: exchange.error().map(|error| error.to_string()),
        is_broken: exchange.is_broken(),
        outcomes: exchange.outcomes().to_vec(),
        usage: exchange.usage(),
        is_interrupted,
        asked,
    };
    meddle(&mut exchange);
    assert_eq!(exchange.next(), NextStep::Over, "goes on after its end");
    assert_eq!(exchange.take_bytes(), b"", "has more to say after its end");
    let now = (exchange.error().map(|error| error.to_string()), exchange.outcomes(), exchange.usage());
    assert_eq!(now, (got.error.clone(), &got.outcomes[..], got.usage), "changes after its end");
    assert_eq!(exchange.head().status, got.status, "has another status after its end");
    got
}

/// Calls everything that changes an exchange. One that is over does not change.
fn meddle(exchange: &mut Exchange) {
    assert!(exchange.take_outgoing().is_none(), "sends after its end");
    exchange.accept([("x-request-id", "late")]);
    exchange.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"late\"}}]}\n\n");
    exchange.silence();
    exchange.interrupt();
    exchange.finish();
    exchange.finish();
    exchange.fail(&UpstreamFault::lost("came late"));
    exchange.refuse(&UpstreamRefusal::new(500));
}
