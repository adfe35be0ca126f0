//! A tool from a function.

use std::fmt::{self, Debug};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::parameters;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DEFAULT_TOOL_TIMEOUT, Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput};
use crate::model::ToolDefinition;

/// Why a function could not do its work, as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailure(pub String);

impl<E: std::error::Error> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<ToolAnswer, ToolFailure>> + Send>>;

/// A tool from a function of typed arguments, whose documentation becomes the schema's.
///
/// ```
/// use prowess_agent::{FunctionTool, Tool, ToolAnswer};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// The numbers to add.
///     numbers: Vec<i64>,
/// }
///
/// let add = FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
///     Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
/// })
/// .idempotent();
/// assert_eq!(add.definition().parameters["required"][0], "numbers");
/// ```
pub struct FunctionTool<A> {
    definition: Arc<ToolDefinition>,
    function: Box<dyn Fn(A) -> Answering + Send + Sync>,
    act: ToolKind,
    idempotent: bool,
    timeout: Duration,
    arguments: PhantomData<fn(A)>,
}

impl<A: DeserializeOwned + JsonSchema + Send + 'static> FunctionTool<A> {
    /// A tool that does what a function does.
    pub fn new<F, W>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolAnswer, ToolFailure>> + Send + 'static,
    {
        let (name, description) = (name.into(), description.into());
        Self {
            definition: Arc::new(ToolDefinition { name, description, parameters: schema::<A>() }),
            act: ToolKind::Other,
            function: Box::new(move |arguments| Box::pin(function(arguments))),
            idempotent: false,
            timeout: DEFAULT_TOOL_TIMEOUT,
            arguments: PhantomData,
        }
    }

    /// The same, as one that may be called again when a call was cut off.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same, as one that does this.
    #[must_use]
    pub fn acts(mut self, act: ToolKind) -> Self {
        self.act = act;
        self
    }

    /// The same, with this much time for a call.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + Send + 'static> Tool for FunctionTool<A> {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.definition)
    }

    fn act(&self) -> ToolKind {
        self.act
    }

    fn is_idempotent(&self) -> bool {
        self.idempotent || self.act.is_idempotent()
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn call(&self, arguments: Value, _: ToolContext<'_>) -> ToolOutput {
        let arguments = match parsed(&self.definition.name, arguments) {
            Ok(arguments) => arguments,
            Err(answer) => return answer.into(),
        };
        match (self.function)(arguments).await {
            Ok(answer) => answer.into(),
            Err(ToolFailure(why)) => ToolAnswer::error(format!("Error: {why}")).into(),
        }
    }
}

impl<A> Debug for FunctionTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

/// How much a model is told of what is wrong with its arguments, in characters.
const MAX_PROBLEM: usize = 500;

/// Arguments of a type, or what the model is told about them.
pub(crate) fn parsed<A: DeserializeOwned + JsonSchema + 'static>(
    tool: &str,
    arguments: Value,
) -> Result<A, ToolAnswer> {
    parameters::parse(arguments).map_err(|wrong| {
        // What is wrong is quoted, however long it is.
        let wrong: String = wrong.to_string().chars().take(MAX_PROBLEM).collect();
        ToolAnswer::error(format!("Error: {tool}: the arguments are not right: {wrong}"))
    })
}

/// The schema of arguments, in one piece.
pub(crate) fn schema<A: JsonSchema + 'static>() -> Value {
    Value::clone(&parameters::schema::<A>())
}
