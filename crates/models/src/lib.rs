//! Models to ask: OpenAI-compatible endpoints, Anthropic, scripted and offline.
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
//! // Any model is asked like this one; `OpenAi` and `Anthropic` take a name and a key.
//! let model = Scripted::new([
//!     ScriptedTurn::new().expect(ScriptedExpect::new().last("notes")).call("ls", json!({"path": "/"})),
//!     ScriptedTurn::new().say("There are three."),
//! ]);
//! let mut stream = model.ask(ModelRequest::new([Message::user("How many notes are there?")])).await?;
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
//! [`OpenAi`] speaks chat completions to any endpoint that has them, [`Anthropic`] speaks Messages. Both take
//! whatever a thread can hold: turns are merged until speakers alternate, names of calls are made their own, calls
//! without a result get one that says so, arguments that are no JSON are wrapped, and what cannot be sent is named.
//! [`Scripted`] says what a script tells and checks what it was sent.
//! [`Offline`] needs neither key nor network: it searches the skills that it is told about, loads one and runs an
//! example.
//!
//! Promises:
//!
//! - A failure is typed, whatever form the provider's complaint has, and no message, log or `Debug` has a key in it.
//! - A failure that may pass is tried again with growing waits, or after the time that the provider names; but only
//!   until the model has said anything. An answer that breaks off after that is an error to whoever reads it.
//! - Everything is bounded: the wait for a connection, for the first byte, for the first word, between bytes and in
//!   all; the length of an answer, of an event, of an error's body and of its message; the number of calls.
//! - Dropping the stream, or the call before it, closes the connection.
//! - No redirect is followed: neither key nor conversation goes to another place.
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
pub use openai::{EffortField, OPENAI_BASE_URL, OpenAi, OpenAiBuilder, OutputLimitName};
pub use scripted::{ScriptError, Scripted, ScriptedExpect, ScriptedFollow, ScriptedTurn};
