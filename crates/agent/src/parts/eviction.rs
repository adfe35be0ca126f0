//! Eviction: a large result goes into a file, and the model sees its head and where the rest is.

use async_trait::async_trait;
use prowess_backend::{Backend, VirtualPath, WriteMode};
use prowess_skills::SkillSession;

use crate::agent::NextTool;
use crate::backends::Backends;
use crate::middleware::{Middleware, Moment};
use crate::parts::skills;
use crate::tool::{ToolAnswer, ToolOutput};

const NAME: &str = "eviction";
/// The longest result that stays in the conversation, in bytes: about 20,000 tokens.
const DEFAULT_MAX_BYTES: usize = 80_000;
/// How much of a large result stays.
const HEAD: usize = 4_000;
/// Tools that show files: what they show in parts is in a file already.
const READERS: [&str; 5] = ["ls", "read_file", "glob", "grep", "edit_file"];

/// Eviction as a part of an agent: put it before the parts whose tools it is for.
///
/// What is in a file can be read to its end with `read_file`. Should the file not be written, the model sees the head and
/// why the rest is lost; so it does where a tool finishes in order ([`ToolOutput::InOrder`]), when nothing can be waited
/// for. What skills' own tools say stays: their budgets bound it, and it must not be taken out of its frame.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, FunctionTool, NoWatcher, ThreadId, ToolAnswer, parts::Eviction};
/// use prowess_backend::MemoryBackend;
/// use prowess_models::{Expect, Scripted, Turn};
/// use serde_json::json;
///
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Nothing {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let book = FunctionTool::new("book", "Reads a book.", |_: Nothing| async {
///     Ok(ToolAnswer::text("Call me Ishmael. ".repeat(10_000)))
/// });
/// let model = Scripted::new([
///     Turn::new().call("book", json!({})),
///     Turn::new().expect(Expect::new().last("All of it is in /large_tool_results/")).say("Long."),
/// ]);
/// let files = Arc::new(MemoryBackend::new());
/// let agent = Agent::builder(Arc::new(model)).with(Eviction::new(files)).tool(Arc::new(book)).build()?;
/// agent.open(ThreadId::new()).await?.say("Read.", &NoWatcher).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Eviction {
    backends: Backends,
    max_bytes: usize,
}

impl Eviction {
    /// Large results into these files, below `/large_tool_results`.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into(), max_bytes: DEFAULT_MAX_BYTES }
    }

    /// The same for results longer than this.
    #[must_use]
    pub fn above(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    async fn evict(&self, backend: &dyn Backend, place: &str, answer: ToolAnswer) -> ToolAnswer {
        let root = VirtualPath::parse("/large_tool_results");
        let Ok(path) = root.and_then(|root| root.join(&format!("{place}.txt"))) else { return answer };
        let bytes = answer.text.len();
        let written = backend.write(&path, answer.text.clone().into(), WriteMode::Replace).await;
        match written {
            Ok(_) => {
                let head = head(&answer.text);
                let text = format!(
                    "The result is large ({bytes} bytes). All of it is in {path}: read it in parts with read_file, or \
                     search it with grep. It begins:\n\n{head}"
                );
                ToolAnswer { text, ..answer }
            }
            Err(error) => without_rest(answer, &format!("could not be written to a file: {error}")),
        }
    }
}

/// Only the head of an answer: too much for a conversation is worse than too little.
fn without_rest(answer: ToolAnswer, why: &str) -> ToolAnswer {
    let (bytes, head) = (answer.text.len(), head(&answer.text));
    let text = format!("The result is large ({bytes} bytes), and {why}. It begins:\n\n{head}");
    ToolAnswer { text, ..answer }
}

fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(HEAD.min(text.len()))]
}

#[async_trait]
impl Middleware for Eviction {
    fn name(&self) -> &str {
        NAME
    }

    async fn wrap_tool_call(&self, moment: Moment<'_>, next: NextTool<'_>) -> ToolOutput {
        let reads = READERS.contains(&next.call.name.as_str());
        let own = skills::session(moment).map(SkillSession::tools).unwrap_or_default();
        let of_skills = own.iter().any(|spec| spec.name == next.call.name);
        let place = format!("{}/{}", moment.thread, next.place());
        match next.call().await {
            ToolOutput::Done(answer) if !reads && answer.text.len() > self.max_bytes => {
                self.evict(&*self.backends.at(moment), &place, answer).await.into()
            }
            ToolOutput::InOrder(finish) if !of_skills => {
                let max_bytes = self.max_bytes;
                ToolOutput::InOrder(Box::new(move || match finish() {
                    answer if answer.text.len() > max_bytes => {
                        without_rest(answer, "what is finished in order is not written to a file")
                    }
                    answer => answer,
                }))
            }
            output => output,
        }
    }
}
