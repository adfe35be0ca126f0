//! Eviction: a large result goes into a file, and the model sees its head and where the rest is.

use std::collections::BTreeMap;

use async_trait::async_trait;
use prowess_backend::{Backend, ReadRange, VirtualPath, WriteMode};
use serde_json::Value;

use crate::agent::NextTool;
use crate::backends::Backends;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::server_words::{self, MAX_OPENING};
use crate::tool::{ToolAnswer, ToolKind, ToolOutput};

const NAME: &str = "eviction";
/// The longest result that stays in the conversation, in bytes: about 20,000 tokens.
const MAX_BYTES: usize = 80_000;
/// How much of a large result stays.
const HEAD: usize = 4_000;
/// Where large results are put.
const PLACE: &str = "large_tool_results";
/// What the names of their files end in.
const END: &str = ".txt";

/// Eviction as a part of an agent: put it before the parts whose tools it is for.
///
/// What is in a file can be read to its end with `read_file`. Should the file not be written, the model sees the head and
/// why the rest is lost; so it does where a tool finishes in order ([`ToolOutput::InOrder`]), when nothing can be waited
/// for. What skills' own tools say stays: their budgets bound it, and it must not be taken out of its frame. The answer of
/// an MCP server ([`ServerWords`](crate::server_words::ServerWords)) keeps its frame: whatever part of it is read back, by whomever, comes
/// in a frame that says whose words these are.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::Eviction;
/// use prowess_agent::{Agent, FunctionTool, NoWatcher, ThreadId, ToolAnswer};
/// use prowess_backend::MemoryBackend;
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
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
///     ScriptedTurn::new().call("book", json!({})),
///     ScriptedTurn::new().expect(ScriptedExpect::new().last("All of it is in /large_tool_results/")).say("Long."),
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
}

impl Eviction {
    /// Large results into these files, below `/large_tool_results`.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into() }
    }

    async fn evict(&self, backend: &dyn Backend, place: &str, answer: ToolAnswer) -> ToolAnswer {
        let root = VirtualPath::parse(&format!("/{PLACE}"));
        let Ok(path) = root.and_then(|root| root.join(&format!("{place}{END}"))) else { return answer };
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

/// The beginning of a text, whole in its frame if it has one.
fn head(text: &str) -> String {
    let head = |text: &str| text[..text.floor_char_boundary(HEAD.min(text.len()))].to_owned();
    match server_words::opening(text) {
        Some(opening) => server_words::within(opening, &head(text[opening.len()..].trim_start_matches('\n'))),
        None => head(text),
    }
}

/// What a tool is asked to show of files.
enum Shown {
    File(VirtualPath),
    /// Lines of many, each with the name of its file.
    Lines,
    Nothing,
}

impl Shown {
    fn by(act: ToolKind, arguments: &Value) -> Self {
        match act {
            ToolKind::Read => {
                let path = arguments["file_path"].as_str().and_then(|path| VirtualPath::parse(path).ok());
                path.map_or(Self::Nothing, Self::File)
            }
            ToolKind::Search => Self::Lines,
            _ => Self::Nothing,
        }
    }
}

/// What was read of files, with the words of servers in their frames.
async fn framed(backend: &dyn Backend, shown: Shown, text: String) -> String {
    match shown {
        Shown::Nothing => text,
        // Whatever its path: a file may be found by another.
        Shown::File(path) => match opening(backend, &path).await {
            Some(opening) => match text.rsplit_once('\n') {
                // The last line says how to read on, and is ours: lines of the file begin with their numbers.
                Some((rows, note)) if note.starts_with('[') => {
                    format!("{}\n{note}", server_words::within(&opening, rows))
                }
                _ => server_words::within(&opening, &text),
            },
            None => text,
        },
        Shown::Lines => framed_lines(backend, text).await,
    }
}

/// The lines of a search: first those of others, then those of servers, each server's in its frame.
async fn framed_lines(backend: &dyn Backend, text: String) -> String {
    let mut openings: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let (mut others, mut framed) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for line in text.lines() {
        let Some(file) = evicted(line) else {
            others.push(line);
            continue;
        };
        if !openings.contains_key(file) {
            let found = match VirtualPath::parse(file) {
                Ok(path) => opening(backend, &path).await,
                Err(_) => None,
            };
            openings.insert(file, found);
        }
        match openings.get(file).cloned().flatten() {
            Some(opening) => framed.entry(opening).or_default().push(line),
            None => others.push(line),
        }
    }
    if framed.is_empty() {
        return text;
    }
    let frames = framed.iter().map(|(opening, lines)| server_words::within(opening, &lines.join("\n")));
    others.into_iter().map(str::to_owned).chain(frames).collect::<Vec<_>>().join("\n")
}

/// The file of a line that a search found, if it can be a large result.
fn evicted(line: &str) -> Option<&str> {
    let end = line.find(&format!("{END}:"))? + END.len();
    Some(&line[..end]).filter(|file| file.starts_with('/') && file.contains(PLACE))
}

/// The line that opens the frame of a file's text, if it has one.
async fn opening(backend: &dyn Backend, path: &VirtualPath) -> Option<String> {
    let contents = backend.read(path, ReadRange::first(MAX_OPENING as u64 + 1)).await.ok()?;
    server_words::opening(&String::from_utf8_lossy(&contents.bytes)).map(ToOwned::to_owned)
}

#[async_trait]
impl Middleware for Eviction {
    fn name(&self) -> &str {
        NAME
    }

    async fn wrap_tool_call(&self, moment: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let act = next.act();
        // What it shows is in a file already.
        let reads = act.shows_files();
        let of_skills = matches!(act, ToolKind::Skill(_));
        let place = format!("{}/{}", moment.thread, next.place());
        let shown = Shown::by(act, next.arguments);
        match next.call().await {
            ToolOutput::Done(answer) if reads && !answer.is_error => {
                let text = framed(&*self.backends.at(moment), shown, answer.text).await;
                ToolAnswer { text, ..answer }.into()
            }
            ToolOutput::Done(answer) if !reads && answer.text.len() > MAX_BYTES => {
                self.evict(&*self.backends.at(moment), &place, answer).await.into()
            }
            ToolOutput::InOrder(finish) if !of_skills => {
                ToolOutput::InOrder(Box::new(move |states| match finish(states) {
                    answer if answer.text.len() > MAX_BYTES => {
                        without_rest(answer, "what is finished in order is not written to a file")
                    }
                    answer => answer,
                }))
            }
            output => output,
        }
    }
}
