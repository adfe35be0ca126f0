//! Eviction: a large tool answer goes into a file, and the model sees its beginning and the path.

use std::collections::BTreeMap;

use async_trait::async_trait;
use prowess_backend::{Backend, ReadRange, VirtualPath, WriteMode};
use serde_json::Value;

use crate::agent::NextTool;
use crate::backends::Backends;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::server_text::{self, MAX_OPENING};
use crate::tool::{ToolAnswer, ToolKind, ToolOutput};

const NAME: &str = "eviction";
/// Longer answers are evicted, in bytes: about 20,000 tokens.
const MAX_ANSWER_BYTES: usize = 80_000;
/// How much of an evicted answer stays in the conversation, in bytes.
const HEAD: usize = 4_000;
/// The directory of evicted answers.
const DIRECTORY: &str = "large_tool_results";
/// The extension of their files.
const EXTENSION: &str = ".txt";

/// Moves large tool answers into files. Add it before the middleware whose tools it is for.
///
/// The model can read the whole file with `read_file`. If the file cannot be written, the model sees the beginning of the
/// answer and the reason. The same happens for a tool that finishes in order ([`ToolOutput::InOrder`]), because its answer
/// cannot wait for a file. Answers of skill tools stay: they have their own budgets, and must not leave their frame.
///
/// The answer of an MCP server ([`ServerText`](crate::server_text::ServerText)) keeps its frame. When any part of it is
/// read back from the file, that part gets a frame that names the server.
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
/// let agent = Agent::builder(Arc::new(model)).middleware(Eviction::new(files)).tool(Arc::new(book)).build()?;
/// agent.open(ThreadId::new()).await?.say("Read.", &NoWatcher).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Eviction {
    backends: Backends,
}

impl Eviction {
    /// Puts large answers into these files, below `/large_tool_results`.
    pub fn new(backends: impl Into<Backends>) -> Self {
        Self { backends: backends.into() }
    }

    async fn evict(&self, backend: &dyn Backend, name: &str, answer: ToolAnswer) -> ToolAnswer {
        let root = VirtualPath::parse(&format!("/{DIRECTORY}"));
        let Ok(path) = root.and_then(|root| root.join(&format!("{name}{EXTENSION}"))) else { return answer };
        let bytes = answer.text.len();
        let written = backend.write(&path, answer.text.clone().into(), WriteMode::Replace).await;
        match written {
            Ok(written) => {
                // The backend may know the file by another path, which works in more tools.
                let (path, head) = (written.path, head(&answer.text));
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

/// The beginning of an answer whose rest is lost. An answer that is too long would be worse.
fn without_rest(answer: ToolAnswer, why: &str) -> ToolAnswer {
    let (bytes, head) = (answer.text.len(), head(&answer.text));
    let text = format!("The result is large ({bytes} bytes), and {why}. It begins:\n\n{head}");
    ToolAnswer { text, ..answer }
}

/// The beginning of a text. If the text has a server's frame, the beginning gets the same frame.
fn head(text: &str) -> String {
    let head = |text: &str| text[..text.floor_char_boundary(HEAD.min(text.len()))].to_owned();
    match server_text::opening(text) {
        Some(opening) => server_text::within(opening, &head(text[opening.len()..].trim_start_matches('\n'))),
        None => head(text),
    }
}

/// Which files a tool call shows.
enum ShownFiles {
    One(VirtualPath),
    /// Lines of many files, each with the path of its file.
    Lines,
    None,
}

impl ShownFiles {
    fn of_call(kind: ToolKind, arguments: &Value) -> Self {
        match kind {
            ToolKind::Read => {
                let path = arguments["file_path"].as_str().and_then(|path| VirtualPath::parse(path).ok());
                path.map_or(Self::None, Self::One)
            }
            ToolKind::Search => Self::Lines,
            _ => Self::None,
        }
    }
}

/// Text from files, in which text of servers gets its frame back.
async fn restore_frames(backend: &dyn Backend, shown: ShownFiles, text: String) -> String {
    match shown {
        ShownFiles::None => text,
        // For any path: a link may lead to the file.
        ShownFiles::One(path) => match opening(backend, &path).await {
            Some(opening) => match text.rsplit_once('\n') {
                // The last line says how to read on. It is not from the file, whose lines begin with numbers.
                Some((rows, note)) if note.starts_with('[') => {
                    format!("{}\n{note}", server_text::within(&opening, rows))
                }
                _ => server_text::within(&opening, &text),
            },
            None => text,
        },
        ShownFiles::Lines => restore_line_frames(backend, text).await,
    }
}

/// The lines of a search: first those without a frame, then those of servers, each in its server's frame.
async fn restore_line_frames(backend: &dyn Backend, text: String) -> String {
    let mut openings: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let (mut others, mut framed) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for line in text.lines() {
        let Some(file) = evicted_file(line) else {
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
    let frames = framed.iter().map(|(opening, lines)| server_text::within(opening, &lines.join("\n")));
    others.into_iter().map(str::to_owned).chain(frames).collect::<Vec<_>>().join("\n")
}

/// The file of a line that a search found, if it can be an evicted answer.
fn evicted_file(line: &str) -> Option<&str> {
    let end = line.find(&format!("{EXTENSION}:"))? + EXTENSION.len();
    Some(&line[..end]).filter(|file| file.starts_with('/') && file.contains(DIRECTORY))
}

/// The line that opens the frame of a file's text, if it has one.
async fn opening(backend: &dyn Backend, path: &VirtualPath) -> Option<String> {
    let contents = backend.read(path, ReadRange::first(MAX_OPENING as u64 + 1)).await.ok()?;
    server_text::opening(&String::from_utf8_lossy(&contents.bytes)).map(ToOwned::to_owned)
}

#[async_trait]
impl Middleware for Eviction {
    fn name(&self) -> &str {
        NAME
    }

    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let kind = next.kind();
        // Such an answer is in a file already.
        let shows_files = kind.shows_files();
        let of_skills = matches!(kind, ToolKind::Skill(_));
        let name = format!("{}/{}", context.thread, next.unique_name());
        let shown = ShownFiles::of_call(kind, next.arguments);
        match next.call().await {
            ToolOutput::Done(answer) if shows_files && !answer.is_error => {
                let text = restore_frames(&*self.backends.at(context), shown, answer.text).await;
                ToolAnswer { text, ..answer }.into()
            }
            ToolOutput::Done(answer) if !shows_files && answer.text.len() > MAX_ANSWER_BYTES => {
                self.evict(&*self.backends.at(context), &name, answer).await.into()
            }
            ToolOutput::InOrder(finish) if !of_skills => {
                ToolOutput::InOrder(Box::new(move |states| match finish(states) {
                    answer if answer.text.len() > MAX_ANSWER_BYTES => {
                        without_rest(answer, "the rest is lost, because this tool cannot wait for a file")
                    }
                    answer => answer,
                }))
            }
            output => output,
        }
    }
}
