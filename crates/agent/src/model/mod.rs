//! What a model is to an agent.

mod assembly;
mod delta;
mod error;
mod request;
mod usage;

use std::fmt::Debug;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use prowess_base::tokens::estimate_tokens;

pub(crate) use self::assembly::name_calls;
pub use self::assembly::{ModelResponse, ResponseAssembly};
pub use self::delta::{Finish, ModelDelta};
pub use self::error::{ModelError, ModelErrorKind};
pub use self::request::{Effort, ModelRequest, PromptSection, ToolChoice, ToolDefinition};
pub use self::usage::{ModelUsage, Usage};

/// A stream of what a model says. Dropping it ends the call.
pub type ModelStream = BoxStream<'static, Result<ModelDelta, ModelError>>;

/// A model that can be asked.
///
/// ```
/// use async_trait::async_trait;
/// use futures_util::{StreamExt as _, stream};
/// use prowess_agent::model::ModelStream;
/// use prowess_agent::{Message, Model, ModelDelta, ModelError, ModelRequest};
///
/// /// Says what it hears.
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl Model for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     async fn ask(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
///         let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
///         Ok(stream::iter([Ok(ModelDelta::Text(last))]).boxed())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// let mut stream = Echo.ask(ModelRequest::new([Message::user("Hello!")])).await?;
/// assert_eq!(stream.next().await.transpose()?, Some(ModelDelta::Text("Hello!".into())));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Model: Send + Sync + Debug {
    /// What it is called, such as `anthropic:claude-sonnet`.
    fn name(&self) -> &str;

    /// How much it can read and say.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// About how many tokens a text takes.
    fn count_tokens(&self, text: &str) -> u64 {
        estimate_tokens(text) as u64
    }

    /// Asks it. The answer comes in pieces; an error may come after some of them.
    ///
    /// # Errors
    ///
    /// Nothing was said at all, and why.
    async fn ask(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// How much a model can read and say, in tokens, as far as that is known.
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
    /// All that it can read and say in one call.
    pub context: Option<u64>,
    /// What it can say in one call.
    pub output: Option<u64>,
}

impl ModelLimits {
    /// A model that reads and says `context` tokens in all, and says `output` of them.
    pub fn new(context: u64, output: u64) -> Self {
        Self { context: Some(context), output: Some(output) }
    }
}
