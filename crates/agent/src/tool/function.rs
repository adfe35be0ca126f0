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

/// Why a function failed, as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailure(pub String);

impl<E: std::error::Error> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<ToolAnswer, ToolFailure>> + Send>>;

/// A tool from a function with typed arguments. Their documentation becomes that of the schema.
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
    kind: ToolKind,
    idempotent: bool,
    timeout: Duration,
    arguments: PhantomData<fn(A)>,
}

impl<A: DeserializeOwned + JsonSchema + Send + 'static> FunctionTool<A> {
    /// A tool that calls a function.
    pub fn new<F, W>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolAnswer, ToolFailure>> + Send + 'static,
    {
        let (name, description) = (name.into(), description.into());
        Self {
            definition: Arc::new(ToolDefinition { name, description, parameters: schema::<A>() }),
            kind: ToolKind::Other,
            function: Box::new(move |arguments| Box::pin(function(arguments))),
            idempotent: false,
            timeout: DEFAULT_TOOL_TIMEOUT,
            arguments: PhantomData,
        }
    }

    /// Declares that a call that was cut off can be repeated.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets the kind of work that the tool does.
    #[must_use]
    pub fn tool_kind(mut self, kind: ToolKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + Send + 'static> Tool for FunctionTool<A> {
    fn definition(&self) -> Arc<ToolDefinition> {
        Arc::clone(&self.definition)
    }

    fn kind(&self) -> ToolKind {
        self.kind
    }

    fn is_idempotent(&self) -> bool {
        self.idempotent || self.kind.is_idempotent()
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

/// How much of a problem with the arguments the model reads, in characters.
const MAX_PROBLEM: usize = 500;

/// Parses arguments. The error is the answer that the model reads.
#[expect(clippy::result_large_err, reason = "the answer is returned as it is, and boxing it helps nobody")]
pub(crate) fn parsed<A: DeserializeOwned + JsonSchema + 'static>(
    tool: &str,
    arguments: Value,
) -> Result<A, ToolAnswer> {
    parameters::parse(arguments).map_err(|wrong| {
        // The problem quotes the argument, which may be long.
        let wrong: String = wrong.to_string().chars().take(MAX_PROBLEM).collect();
        ToolAnswer::error(format!("Error: {tool}: the arguments are not right: {wrong}"))
    })
}

/// The schema of arguments, without references.
pub(crate) fn schema<A: JsonSchema + 'static>() -> Value {
    Value::clone(&parameters::schema::<A>())
}
