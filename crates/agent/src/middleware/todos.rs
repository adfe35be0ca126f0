//! Todos: a list of steps that the model writes and updates.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;
use crate::middleware::{Middleware, MiddlewareContext, MiddlewareError, Sections};
use crate::model::{PromptSection, ToolDefinition};
use crate::state::{AnyState, State};
use crate::thread_state::StateChange;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput, parsed, schema};

const NAME: &str = "todos";
const TOOL: &str = "write_todos";
/// The longest list.
const MAX_TODOS: usize = 100;

const SECTION: &str = "\
## Todos

For work of several steps, keep a list with `write_todos`: write it before you begin, set one step to \
`in_progress` when you start it, and to `completed` as soon as it is done. Each call replaces the whole list. \
For work of one or two steps, you need no list.";

/// The tool `write_todos`, and the list in the thread's state.
///
/// Once a summary has replaced messages, the model is told the list again.
///
/// ```
/// use std::sync::{Arc, OnceLock};
/// use prowess_agent::middleware::{TodoStatus, Todos};
/// use prowess_agent::{Agent, NoWatcher, ThreadId};
/// use prowess_models::{Scripted, ScriptedTurn};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plan = json!({"todos": [{"content": "Bow", "status": "in_progress"}]});
/// let model = Scripted::new([ScriptedTurn::new().call("write_todos", plan), ScriptedTurn::new().say("Begun.")]);
/// let agent = Agent::builder(Arc::new(model)).middleware(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Greet the queen.", &NoWatcher).await?;
/// assert_eq!(Todos::of(thread.states())[0].status, TodoStatus::InProgress);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Todos;

/// The todo list of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TodoList {
    todos: Vec<Todo>,
    /// Whether the model wrote it since the last model call.
    is_fresh: bool,
    /// How many messages of the thread were summarised when the model wrote the list, or was told it again.
    told_at: usize,
}

/// A change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum TodoDelta {
    /// The model wrote it.
    Written(Vec<Todo>),
    /// The model sees it in the conversation.
    Told {
        /// How many messages were summarised.
        told_at: usize,
    },
}

/// One step of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far the step is.
    pub status: TodoStatus,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
}

impl State for TodoList {
    type Delta = TodoDelta;

    fn apply(&mut self, delta: TodoDelta) {
        match delta {
            TodoDelta::Written(todos) => (self.todos, self.is_fresh) = (todos, true),
            TodoDelta::Told { told_at } => (self.told_at, self.is_fresh) = (told_at, false),
        }
    }
}

impl Todos {
    /// The todo list of a thread.
    pub fn of(states: &crate::state::States) -> &[Todo] {
        states.get::<TodoList>(NAME).map_or(&[], |list| &list.todos)
    }

    /// The list that the model wrote with a stored state change. `None` if the change is about something else.
    pub fn written(change: &StateChange) -> Option<Vec<Todo>> {
        if change.owner != NAME {
            return None;
        }
        match TodoDelta::deserialize(&change.delta) {
            Ok(TodoDelta::Written(todos)) => Some(todos),
            _ => None,
        }
    }
}

#[async_trait]
impl Middleware for Todos {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<TodoList>::default())
    }

    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(WriteTodos)]
    }

    async fn sections(&self, context: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        let section = PromptSection { owner: NAME.to_owned(), text: SECTION.to_owned(), is_stable: true };
        let mut sections = Sections::from(section);
        let cut = context.thread_state.cut();
        let list = context.states.get::<TodoList>(NAME).filter(|list| !list.todos.is_empty());
        if let Some(list) = list.filter(|list| list.is_fresh || list.told_at < cut) {
            // The model may no longer see the call that wrote the list.
            if !list.is_fresh {
                sections.messages.push(Message::by_agent(as_text(&list.todos)));
            }
            let told = TodoDelta::Told { told_at: cut };
            sections.changes.push(StateChange::new::<TodoList>(NAME, &told));
        }
        Ok(sections)
    }
}

/// The list as the model reads it, one step per line.
fn as_text(todos: &[Todo]) -> String {
    let mut text = "[Your list of todos, as you wrote it last. This is not from the user.]\n".to_owned();
    for todo in todos {
        let mark = match todo.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        let step = todo.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "\n- [{mark}] {step}");
    }
    text.push_str("\n\n`x` is completed, `>` in progress.");
    text
}

#[derive(Debug)]
struct WriteTodos;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    todos: Vec<Step>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    content: String,
    #[schemars(with = "String", extend("enum" = ["pending", "in_progress", "completed"]))]
    status: TodoStatus,
}

impl WriteTodos {
    fn create_definition() -> ToolDefinition {
        ToolDefinition {
            name: TOOL.to_owned(),
            description: "Write the list of steps. Always write the whole list.".to_owned(),
            parameters: schema::<Arguments>(),
        }
    }
}

#[async_trait]
impl Tool for WriteTodos {
    fn definition(&self) -> Arc<ToolDefinition> {
        static DEFINITION: OnceLock<Arc<ToolDefinition>> = OnceLock::new();
        Arc::clone(DEFINITION.get_or_init(|| Self::create_definition().into()))
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Todo
    }

    async fn call(&self, arguments: Value, _: ToolContext<'_>) -> ToolOutput {
        let Arguments { todos } = match parsed(TOOL, arguments) {
            Ok(arguments) => arguments,
            Err(answer) => return answer.into(),
        };
        let todo = |Step { content, status }| Todo { content, status };
        let todos: Vec<Todo> = todos.into_iter().map(todo).collect();
        if todos.len() > MAX_TODOS {
            let text = format!(
                "Error: a list can have at most {MAX_TODOS} steps, but this one has {}.",
                todos.len()
            );
            return ToolAnswer::error(text).into();
        }
        let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
        let text = format!("The list is written: {done} of {} done.", todos.len());
        ToolAnswer::text(text).change(StateChange::new::<TodoList>(NAME, &TodoDelta::Written(todos))).into()
    }
}
