//! Models: the trait, and the types of requests and responses.

mod delta;
mod error;
mod request;
mod response;
mod tokens;
mod usage;

use std::fmt::Debug;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use prowess_base::tokens::estimate_tokens;

pub use self::delta::{Finish, ModelDelta};
pub use self::error::{ModelError, ModelErrorKind};
pub use self::request::{Effort, ModelRequest, PromptSection, ToolChoice, ToolDefinition};
pub(crate) use self::response::name_calls;
pub use self::response::{ModelResponse, ResponseAssembly};
pub(crate) use self::tokens::{message_tokens, request_tokens, tool_tokens};
pub use self::usage::{ModelUsage, Usage};

/// A response as a stream of deltas. Dropping it ends the model call.
pub type ModelStream = BoxStream<'static, Result<ModelDelta, ModelError>>;

/// A model that an agent can call.
///
/// ```
/// use async_trait::async_trait;
/// use futures_util::{StreamExt as _, stream};
/// use prowess_agent::model::ModelStream;
/// use prowess_agent::{Message, Model, ModelDelta, ModelError, ModelRequest};
///
/// /// Repeats the last message.
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl Model for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
///         let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
///         Ok(stream::iter([Ok(ModelDelta::Text(last))]).boxed())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// let mut stream = Echo.call(ModelRequest::new([Message::user("Hello!")])).await?;
/// assert_eq!(stream.next().await.transpose()?, Some(ModelDelta::Text("Hello!".into())));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Model: Send + Sync + Debug {
    /// The model's name, such as `anthropic:claude-sonnet`.
    fn name(&self) -> &str;

    /// How many tokens the model can read and write.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// Estimates how many tokens a text has.
    fn count_tokens(&self, text: &str) -> u64 {
        estimate_tokens(text) as u64
    }

    /// The tokenizer that [`count_tokens`](Self::count_tokens) uses, such as `o200k`. `None` if it only estimates.
    fn tokenizer(&self) -> Option<&str> {
        None
    }

    /// Lets the provider count the tokens of a request. `None` if it cannot.
    ///
    /// This is a request over the network. The agent asks only if the answer decides something, and a person waits for it.
    ///
    /// # Errors
    ///
    /// The provider did not answer. The estimate counts then.
    async fn count_request(&self, request: &ModelRequest) -> Result<Option<u64>, ModelError> {
        let _ = request;
        Ok(None)
    }

    /// Calls the model. The response arrives in deltas. An error can come after some of them.
    ///
    /// # Errors
    ///
    /// The call failed before the first delta.
    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// How many tokens a model can read and write, as far as known.
///
/// ```
/// use prowess_agent::model::ModelLimits;
///
/// let limits = ModelLimits::new(200_000, 64_000);
/// assert_eq!(limits.output, Some(64_000));
/// assert_eq!(ModelLimits::default().context, None, "unknown");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelLimits {
    /// The context window: all that the model can read and write in one call.
    pub context: Option<u64>,
    /// The longest response.
    pub output: Option<u64>,
}

impl ModelLimits {
    /// A model with a context window of `context` tokens and responses of at most `output` tokens.
    pub fn new(context: u64, output: u64) -> Self {
        Self { context: Some(context), output: Some(output) }
    }
}
