//! The tools of an agent, by name.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tool;
use crate::model::ToolDefinition;

/// Tools by name, in the order in which the model sees them.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{FunctionTool, ToolAnswer, Tools};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nothing {}
///
/// let ping = |_: Nothing| async { Ok(ToolAnswer::text("pong")) };
/// let tool = || Arc::new(FunctionTool::new("ping", "Answers.", ping));
/// let mut tools = Tools::default();
/// tools.add(tool())?;
/// assert_eq!(tools.definitions()[0].name, "ping");
/// assert!(tools.add(tool()).is_err(), "the name is taken");
/// # Ok::<(), prowess_agent::tool::DuplicateTool>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tools {
    order: Vec<Arc<ToolDefinition>>,
    by_name: BTreeMap<ByName, Arc<dyn Tool>>,
}

/// A definition that is ordered by its name.
#[derive(Clone, Debug)]
struct ByName(Arc<ToolDefinition>);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

/// Two tools have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two tools are called `{0}`: remove or rename one of them")]
pub struct DuplicateTool(pub String);

impl Tools {
    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// Another tool has the same name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), DuplicateTool> {
        let definition = tool.definition();
        if self.by_name.contains_key(definition.name.as_str()) {
            return Err(DuplicateTool(definition.name.clone()));
        }
        self.by_name.insert(ByName(Arc::clone(&definition)), tool);
        self.order.push(definition);
        Ok(())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name)
    }

    /// The tools as the model sees them.
    pub fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.order
    }

    /// The answer to a call of a tool that does not exist.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.order.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "(none)".to_owned() } else { names.join(", ") };
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        format!("Error: there is no tool `{name}`. Tools: {names}.")
    }
}
