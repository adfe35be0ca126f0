//! Models for agents: OpenAI-compatible endpoints, Anthropic, scripted and offline.
//!
//! Each implements [`prowess_agent::Model`]. All of them accept any conversation that a thread can contain, and report every
//! failure as a typed error.
//!
//! ```
//! use futures_util::StreamExt;
//! use prowess_agent::model::ResponseAssembly;
//! use prowess_agent::{Message, Model, ModelRequest};
//! use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), prowess_agent::ModelError> {
//! // All models are called like this one. `OpenAi` and `Anthropic` need a name and a key.
//! let model = Scripted::new([
//!     ScriptedTurn::new().expect(ScriptedExpect::new().last("notes")).call("ls", json!({"path": "/"})),
//!     ScriptedTurn::new().say("There are three."),
//! ]);
//! let mut stream = model.call(ModelRequest::new([Message::user("How many notes are there?")])).await?;
//! let mut assembly = ResponseAssembly::new(model.name());
//! while let Some(delta) = stream.next().await {
//!     assembly.push(delta?);
//! }
//! assert_eq!(assembly.finish().message.tool_calls().next().map(|call| call.name.as_str()), Some("ls"));
//! assert_eq!(model.remaining(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # The types to know
//!
//! - [`OpenAi`]: a model behind any endpoint that speaks OpenAI's chat completions.
//! - [`Anthropic`]: a model that speaks Anthropic's Messages format.
//! - [`Scripted`]: a model that follows a script and checks its requests, for tests.
//! - [`Offline`]: a model that needs no key and no network. It searches the skills in its prompt, loads one and runs an
//!   example.
//! - [`OpenAiEmbeddings`]: an embedding model behind any endpoint that speaks OpenAI's embeddings, for the search of skills.
//! - [`Http`]: the HTTP client, with its timeouts and limits ([`HttpOptions`]). Models can share one.
//!
//! # Conversations
//!
//! [`OpenAi`] and [`Anthropic`] repair a conversation before they send it. They merge messages until roles alternate, give
//! each tool call its own id, answer calls that have no answer, wrap arguments that are not JSON, and name files that cannot
//! be sent.
//!
//! # Promises
//!
//! - Every failure has a [kind](prowess_agent::model::ModelErrorKind), whatever the form of the provider's error. No
//!   message, log or `Debug` output contains a key.
//! - A failure that may pass is retried with growing waits, or after the time that the provider names. There are no retries
//!   once the model has begun to respond. A response that breaks off after that is an error.
//! - Everything has a limit: the time to connect, to the first byte, to the first text, between bytes and in total; the
//!   length of a response, of an event, of an error's body and of its message; the number of tool calls.
//! - Dropping the stream, or the call before it, closes the connection.
//! - No redirect is followed, so neither the key nor the conversation goes to another address.
//!
//! The providers need a Tokio runtime with its I/O and time drivers.

mod anthropic;
mod conversation;
mod http;
mod offline;
mod openai;
mod scripted;

pub use anthropic::{ANTHROPIC_BASE_URL, Anthropic, AnthropicBuilder, PromptCache, Thinking};
pub use http::{Http, HttpOptions, Proxies, SetupError};
pub use offline::Offline;
pub use openai::{
    EffortField, OPENAI_BASE_URL, OpenAi, OpenAiBuilder, OpenAiEmbeddings, OpenAiEmbeddingsBuilder,
    OutputLimitName, Tokenizer,
};
pub use scripted::{ScriptError, Scripted, ScriptedExpect, ScriptedFollow, ScriptedTurn};
