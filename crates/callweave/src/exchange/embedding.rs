//! Embeddings between clients and upstreams of different protocols.
//!
//! A request has texts, a response has one vector for each. Numbers stay as they are written.
//!
//! ```
//! use callweave::Value;
//! use callweave::exchange::embedding::EmbeddingApi;
//!
//! let asked: Value = r#"{"model": "m", "input": ["a", "b"]}"#.parse()?;
//! let request = EmbeddingApi::Ollama.read_request(&asked).expect("texts");
//! let sent = EmbeddingApi::OpenAi.write_request(&request, "m");
//! assert_eq!(sent.to_string(), r#"{"model":"m","input":["a","b"]}"#);
//! let answered: Value = r#"{"data": [{"index": 0, "embedding": [0.5]}, {"index": 1, "embedding": [1.50]}]}"#.parse()?;
//! let vectors = EmbeddingApi::OpenAi.read_response(&answered).expect("vectors");
//! let written = EmbeddingApi::Gemini.write_response(&vectors, &request);
//! assert_eq!(written.to_string(), r#"{"embedding":{"values":[0.5]}}"#);
//! # Ok::<(), callweave::Error>(())
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ExchangeResult;
use super::amount::invalid;
use super::http::escaped_model;
use crate::json::{Array, Object, Value};
use crate::protocol::{GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};

/// An API for embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmbeddingApi {
    /// OpenAI's `/embeddings`.
    OpenAi,
    /// Gemini's `:embedContent`, for one text.
    Gemini,
    /// Gemini's `:batchEmbedContents`.
    GeminiBatch,
    /// Vertex AI's `:predict`.
    VertexPredict,
    /// Ollama's `/api/embed`.
    Ollama,
    /// Ollama's `/api/embeddings`, for one text.
    OllamaPrompt,
}

/// A request for embeddings.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EmbeddingRequest {
    /// The model, where the body names it.
    pub model: Option<String>,
    /// The texts.
    pub inputs: Vec<String>,
    /// The length that vectors are to have.
    pub dimensions: Option<Value>,
    /// Whether the client wants vectors as base64 of little-endian floats.
    pub is_base64: bool,
    /// The names of the client's other parameters, which only its own API understands.
    pub losses: Vec<String>,
}

/// The vectors of a response.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Embeddings {
    /// One vector for each text: lists of numbers.
    pub vectors: Vec<Value>,
    /// The number of tokens of the texts, if the upstream says it.
    pub input_tokens: Option<u64>,
}

impl EmbeddingApi {
    /// The API in which upstreams of a protocol are asked.
    pub fn of_upstream(protocol: &Protocol) -> Option<Self> {
        match () {
            () if *protocol == OPENAI_CHAT || *protocol == OPENAI_RESPONSES => Some(Self::OpenAi),
            () if *protocol == GEMINI_GENERATE_CONTENT => Some(Self::GeminiBatch),
            () if *protocol == OLLAMA => Some(Self::Ollama),
            () => None,
        }
    }

    /// The protocol that it belongs to.
    pub fn protocol(self) -> &'static Protocol {
        match self {
            Self::OpenAi => &OPENAI_CHAT,
            Self::Gemini | Self::GeminiBatch | Self::VertexPredict => &GEMINI_GENERATE_CONTENT,
            Self::Ollama | Self::OllamaPrompt => &OLLAMA,
        }
    }

    /// The path under a base URL with its version.
    pub fn path(self, model: &str) -> ExchangeResult<String> {
        Ok(match self {
            Self::OpenAi => "/embeddings".to_owned(),
            Self::Gemini => format!("/models/{}:embedContent", escaped_model(model)?),
            Self::GeminiBatch => format!("/models/{}:batchEmbedContents", escaped_model(model)?),
            Self::VertexPredict => format!("/models/{}:predict", escaped_model(model)?),
            Self::Ollama => "/embed".to_owned(),
            Self::OllamaPrompt => "/embeddings".to_owned(),
        })
    }

    /// The client's body with the name that the upstream has for the model.
    pub fn renamed(self, mut body: Value, model: &str) -> Value {
        let qualified = format!("models/{model}");
        match self {
            Self::Gemini | Self::GeminiBatch => {
                if let Some(own) = body.get_mut("model") {
                    *own = qualified.as_str().into();
                }
                for request in body.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(request) = request.as_object_mut() {
                        request.insert("model", qualified.as_str());
                    }
                }
            }
            Self::VertexPredict => {}
            Self::OpenAi | Self::Ollama | Self::OllamaPrompt => {
                if let Some(body) = body.as_object_mut() {
                    body.insert("model", model);
                }
            }
        }
        body
    }

    /// Reads a client's request. Text alone can be carried to another API.
    pub fn read_request(self, body: &Value) -> ExchangeResult<EmbeddingRequest> {
        let Some(members) = body.as_object() else { return Err(invalid("the request is no object")) };
        let mut request = EmbeddingRequest {
            model: members.get("model").and_then(Value::as_str).map(str::to_owned),
            ..EmbeddingRequest::default()
        };
        let known: &[&str] = match self {
            Self::OpenAi => {
                request.inputs = texts(members, "input")?;
                request.dimensions = members.get("dimensions").cloned();
                request.is_base64 = members.get("encoding_format").is_some_and(|own| *own == "base64");
                &["input", "dimensions", "encoding_format", "user"]
            }
            Self::Ollama => {
                request.inputs = texts(members, "input")?;
                request.dimensions = members.get("dimensions").cloned();
                &["input", "dimensions", "keep_alive"]
            }
            Self::OllamaPrompt => {
                request.inputs = texts(members, "prompt")?;
                &["prompt", "keep_alive"]
            }
            Self::Gemini => {
                request.read_content(members)?;
                GEMINI
            }
            Self::GeminiBatch => {
                for one in members.get("requests").and_then(Value::as_array).into_iter().flatten() {
                    let one =
                        one.as_object().ok_or_else(|| invalid("an element of requests is no object"))?;
                    request.read_content(one)?;
                    request.note_losses(one, GEMINI);
                }
                &["requests"]
            }
            Self::VertexPredict => {
                for one in members.get("instances").and_then(Value::as_array).into_iter().flatten() {
                    let one =
                        one.as_object().ok_or_else(|| invalid("an element of instances is no object"))?;
                    request.inputs.extend(texts(one, "content")?);
                    request.note_losses(one, &["content"]);
                }
                if let Some(parameters) = members.get("parameters").and_then(Value::as_object) {
                    request.dimensions = parameters.get("outputDimensionality").cloned();
                    request.note_losses(parameters, &["outputDimensionality"]);
                }
                &["instances", "parameters"]
            }
        };
        request.note_losses(members, known);
        request.dimensions = request.dimensions.filter(|own| !own.is_null());
        if request.inputs.is_empty() {
            return Err(invalid("there is no text to embed"));
        }
        Ok(request)
    }

    /// Writes a request for an upstream.
    pub fn write_request(self, request: &EmbeddingRequest, model: &str) -> Value {
        let mut body = Object::new();
        let texts = || Value::from_iter(request.inputs.iter().map(String::as_str));
        match self {
            Self::OpenAi | Self::Ollama => {
                body.insert("model", model);
                body.insert("input", texts());
                if let Some(dimensions) = &request.dimensions {
                    body.insert("dimensions", dimensions.clone());
                }
            }
            Self::OllamaPrompt => {
                body.insert("model", model);
                body.insert("prompt", request.inputs.first().map_or("", String::as_str));
            }
            Self::Gemini => {
                return content(request.inputs.first().map_or("", String::as_str), request, model);
            }
            Self::GeminiBatch => {
                let each = request.inputs.iter().map(|text| content(text, request, model));
                body.insert("requests", Value::from_iter(each));
            }
            Self::VertexPredict => {
                let each =
                    request.inputs.iter().map(|text| Value::object([("content", text.as_str().into())]));
                body.insert("instances", Value::from_iter(each));
                if let Some(dimensions) = &request.dimensions {
                    body.insert("parameters", Value::object([("outputDimensionality", dimensions.clone())]));
                }
            }
        }
        body.into()
    }

    /// Reads a response of an upstream; none if it has no vectors.
    pub fn read_response(self, body: &Value) -> Option<Embeddings> {
        let list = |key: &str| Some(body.get(key)?.as_array()?.iter());
        let (vectors, tokens): (Vec<Option<Value>>, _) = match self {
            Self::OpenAi => {
                let mut data: Vec<_> = list("data")?.collect();
                data.sort_by_key(|one| one.get("index").and_then(Value::as_u64).unwrap_or(u64::MAX));
                let vectors = data.iter().map(|one| one.get("embedding").cloned()).collect();
                (vectors, body.pointer("/usage/prompt_tokens"))
            }
            Self::Gemini => (vec![body.pointer("/embedding/values").cloned()], None),
            Self::GeminiBatch => (list("embeddings")?.map(|one| one.get("values").cloned()).collect(), None),
            Self::VertexPredict => {
                let values = |one: &Value| one.pointer("/embeddings/values").cloned();
                (list("predictions")?.map(values).collect(), None)
            }
            Self::Ollama => {
                (list("embeddings")?.map(|one| Some(one.clone())).collect(), body.get("prompt_eval_count"))
            }
            Self::OllamaPrompt => (vec![body.get("embedding").cloned()], None),
        };
        let vectors: Vec<Value> = vectors.into_iter().collect::<Option<_>>()?;
        let is_sound = !vectors.is_empty() && vectors.iter().all(Value::is_array);
        is_sound.then(|| Embeddings { vectors, input_tokens: tokens.and_then(Value::as_u64) })
    }

    /// Writes a response for a client.
    pub fn write_response(self, embeddings: &Embeddings, request: &EmbeddingRequest) -> Value {
        let first = || embeddings.vectors.first().cloned().unwrap_or_else(|| Array::new().into());
        let model = || request.model.as_deref().unwrap_or_default().into();
        let values = |vector: Value| Value::object([("values", vector)]);
        let tokens = embeddings.input_tokens.unwrap_or(0);
        match self {
            Self::OpenAi => {
                let one = |(at, vector): (usize, &Value)| {
                    let vector = if request.is_base64 { base64(vector) } else { vector.clone() };
                    Value::object([
                        ("object", "embedding".into()),
                        ("index", at.into()),
                        ("embedding", vector),
                    ])
                };
                let usage =
                    Value::object([("prompt_tokens", tokens.into()), ("total_tokens", tokens.into())]);
                Value::object([
                    ("object", "list".into()),
                    ("data", Value::from_iter(embeddings.vectors.iter().enumerate().map(one))),
                    ("model", model()),
                    ("usage", usage),
                ])
            }
            Self::Gemini => Value::object([("embedding", values(first()))]),
            Self::GeminiBatch => {
                let all = embeddings.vectors.iter().cloned().map(values);
                Value::object([("embeddings", Value::from_iter(all))])
            }
            Self::VertexPredict => {
                let all = embeddings.vectors.iter().cloned();
                let all = all.map(|vector| Value::object([("embeddings", values(vector))]));
                Value::object([("predictions", Value::from_iter(all))])
            }
            Self::Ollama => Value::object([
                ("model", model()),
                ("embeddings", Value::from_iter(embeddings.vectors.iter().cloned())),
                ("total_duration", 0.into()),
                ("load_duration", 0.into()),
                ("prompt_eval_count", tokens.into()),
            ]),
            Self::OllamaPrompt => Value::object([("embedding", first())]),
        }
    }
}

/// The members of Gemini's requests that are read.
const GEMINI: &[&str] = &["content", "outputDimensionality", "output_dimensionality"];

impl EmbeddingRequest {
    /// Notes the members that are not read.
    fn note_losses(&mut self, members: &Object, known: &[&str]) {
        for (key, value) in members {
            let is_lost = key != "model" && !known.contains(&key) && !value.is_null();
            if is_lost && !self.losses.iter().any(|own| own == key) {
                self.losses.push(key.to_owned());
            }
        }
    }

    /// Reads one of Gemini's requests.
    fn read_content(&mut self, members: &Object) -> ExchangeResult<()> {
        let parts = members.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        let mut text = String::new();
        for part in parts.into_iter().flatten() {
            match part.get("text").and_then(Value::as_str) {
                Some(own) => text.push_str(own),
                None => return Err(invalid("only texts can be embedded by an upstream of another protocol")),
            }
        }
        if parts.is_none() {
            return Err(invalid("content.parts is missing"));
        }
        self.inputs.push(text);
        let dimensions = ["outputDimensionality", "output_dimensionality"];
        if let Some(own) = dimensions.iter().find_map(|key| members.get(key)) {
            self.dimensions = Some(own.clone());
        }
        Ok(())
    }
}

/// A text, or a list of texts.
fn texts(members: &Object, key: &str) -> ExchangeResult<Vec<String>> {
    let no_text =
        || invalid(format!("{key} has to be a text or a list of texts for an upstream of another protocol"));
    match members.get(key) {
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(all)) => {
            all.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(no_text)).collect()
        }
        Some(_) => Err(no_text()),
        None => Err(invalid(format!("{key} is missing"))),
    }
}

fn content(text: &str, request: &EmbeddingRequest, model: &str) -> Value {
    let part = Value::object([("text", text.into())]);
    let mut one = Object::new();
    one.insert("model", format!("models/{model}"));
    one.insert("content", Value::object([("parts", Value::from_iter([part]))]));
    if let Some(dimensions) = &request.dimensions {
        one.insert("outputDimensionality", dimensions.clone());
    }
    one.into()
}

/// A vector as OpenAI's clients ask for it by default.
fn base64(vector: &Value) -> Value {
    let numbers = vector.as_array().into_iter().flatten();
    let bytes = numbers.flat_map(|number| (number.as_f64().unwrap_or_default() as f32).to_le_bytes());
    STANDARD.encode(bytes.collect::<Vec<u8>>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [EmbeddingApi; 6] = [
        EmbeddingApi::OpenAi,
        EmbeddingApi::Gemini,
        EmbeddingApi::GeminiBatch,
        EmbeddingApi::VertexPredict,
        EmbeddingApi::Ollama,
        EmbeddingApi::OllamaPrompt,
    ];

    #[test]
    fn what_is_written_is_read_again_in_every_api() {
        let request = EmbeddingRequest { inputs: vec!["a".to_owned()], ..EmbeddingRequest::default() };
        for api in ALL {
            let again = api.read_request(&api.write_request(&request, "m")).expect("a request");
            assert_eq!(
                (again.inputs, again.losses),
                (request.inputs.clone(), Vec::<String>::new()),
                "{api:?}"
            );
            let vectors = vec!["[0.10,-2]".parse::<Value>().expect("JSON")];
            let embeddings = Embeddings { vectors, input_tokens: None };
            let again = api.read_response(&api.write_response(&embeddings, &request)).expect("vectors");
            assert_eq!(again.vectors[0].to_string(), "[0.10,-2]", "{api:?}");
        }
    }

    #[test]
    fn what_has_no_vectors_is_no_response() {
        for api in ALL {
            for body in ["{}", r#"{"data":[{}],"embeddings":[{}],"embedding":{},"predictions":[{}]}"#, "[]"] {
                assert!(api.read_response(&body.parse().expect("JSON")).is_none(), "{api:?} {body}");
            }
        }
    }

    #[test]
    fn vectors_keep_the_order_of_their_texts_and_may_be_packed() {
        let body = r#"{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":7}}"#;
        let read = EmbeddingApi::OpenAi.read_response(&body.parse().expect("JSON")).expect("vectors");
        assert_eq!((read.vectors[0].to_string().as_str(), read.input_tokens), ("[1]", Some(7)));
        let request = EmbeddingRequest { is_base64: true, ..EmbeddingRequest::default() };
        let written = EmbeddingApi::OpenAi.write_response(&read, &request);
        assert_eq!(written["data"][0]["embedding"], "AACAPw==");
    }

    #[test]
    fn tokens_are_refused_and_what_is_lost_is_named() {
        let tokens = r#"{"model":"m","input":[1,2]}"#.parse().expect("JSON");
        assert!(EmbeddingApi::OpenAi.read_request(&tokens).is_err());
        let body = r#"{"content":{"parts":[{"text":"a"}]},"taskType":"X","outputDimensionality":8}"#;
        let read = EmbeddingApi::Gemini.read_request(&body.parse().expect("JSON")).expect("a request");
        assert_eq!((read.losses, read.dimensions), (vec!["taskType".to_owned()], Some(8.into())));
        let body = r#"{"instances":[{"content":"a","task_type":"X"}],"parameters":{"autoTruncate":true,"outputDimensionality":8}}"#;
        let read = EmbeddingApi::VertexPredict.read_request(&body.parse().expect("JSON")).expect("a request");
        assert_eq!(
            (read.losses.join(" ").as_str(), read.dimensions),
            ("task_type autoTruncate", Some(8.into()))
        );
    }
}
