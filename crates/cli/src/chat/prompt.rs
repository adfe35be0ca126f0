//! The system prompts of a chat and of its sub-agents.

use prowess_agent::tool::{ToolKind, ToolSelection};
use prowess_skills::SkillToolKind;
use prowess_workspace::tree::Tree;
use prowess_workspace::writable::WritablePath;

use super::agents::Surface;

/// The system prompt. `prompt` puts in the paths.
const PROMPT: &str = "{place} You work for that person, with skills and tools. \
Look at the skills first: if one fits the task, load it and follow it, and unload it when it is no longer needed. Paths mean the \
same in all tools. {files} {skills}/NAME has the files of a skill. {work} is your \
own workspace. {commands}\
Some calls wait until the person allows them. If a call is refused, do not work around that: say what you need. \
Be brief. Write in Markdown.";

/// What a system prompt says about the surface.
struct SurfaceTexts {
    /// Where the agent is.
    place: &'static str,
    /// Where the agent for which a sub-agent works is.
    of_other: &'static str,
    /// What the project is for the person.
    files: &'static str,
}

impl Surface {
    fn texts(self) -> SurfaceTexts {
        match self {
            Self::Terminal => SurfaceTexts {
                place: "You are an agent in a person's terminal.",
                of_other: ", in a person's terminal",
                files: "{project} is the directory that the person works in.",
            },
            Self::Server => SurfaceTexts {
                place: "You are an agent on a server. A person talks to you through a web page or a program.",
                of_other: " on a server",
                files: "{project} belongs to this conversation: it has the files that the person uploads, and the person gets \
                    your results from it. The person sees no other file, except those that a command saves as artifacts.",
            },
        }
    }
}

/// The part of the system prompt about commands, for agents that can run some.
const COMMANDS: &str = "Commands of skills run in a sandbox, which has a file of the project only if the command names its \
path below {project}. They cannot change the project{writable}: let them write to {work}/out{copies}. ";

/// The system prompt of a sub-agent without skills.
const PROMPT_WITHOUT_SKILLS: &str = "You work on one task for another agent{where}. Your response is all \
that the other agent gets. {files} Some calls wait until the person allows them. If a call is refused, do not work around that: \
say what you need. Be brief. Write in Markdown.";

/// The system prompt for an agent with these tools, with the paths that the model sees. Its commands write nothing in the
/// project.
pub(super) fn prompt(surface: Surface, tree: &Tree, tools: &ToolSelection) -> String {
    prompt_with_writable(surface, tree, tools, &[])
}

/// The system prompt for an agent with these tools, whose commands may write these directories of the project.
pub(super) fn prompt_with_writable(
    surface: Surface,
    tree: &Tree,
    tools: &ToolSelection,
    writable: &[WritablePath],
) -> String {
    let shown = |path: &WritablePath| tree.shown(&tree.project_directory()?.join(path.as_str()));
    let writable: Vec<String> = writable.iter().filter_map(shown).map(|path| format!("`{path}`")).collect();
    let writable = match writable.as_slice() {
        [] => String::new(),
        directories => format!(", except in {}", directories.join(", ")),
    };
    let can_run = tools.has_kind(ToolKind::Skill(SkillToolKind::Run));
    let copies = if tools.has_kind(ToolKind::Copy) { ", and copy a result with copy_file" } else { "" };
    let commands = if can_run { COMMANDS.replace("{copies}", copies) } else { String::new() };
    let texts = surface.texts();
    let text = PROMPT.replace("{place}", texts.place).replace("{files}", texts.files);
    // The names of directories come last, because they may contain braces.
    with_places(&text.replace("{commands}", &commands), tree).replace("{writable}", &writable)
}

/// The system prompt for a sub-agent without skills.
pub(super) fn prompt_without_skills(surface: Surface, tree: &Tree) -> String {
    let texts = surface.texts();
    let text = PROMPT_WITHOUT_SKILLS.replace("{where}", texts.of_other).replace("{files}", texts.files);
    with_places(&text, tree)
}

/// A text with the paths that the model sees.
fn with_places(text: &str, tree: &Tree) -> String {
    let project = tree.project_directory().and_then(|project| tree.shown(project)).unwrap_or_default();
    let code = |path: &str| format!("`{path}`");
    text.replace("{project}", &code(&project))
        .replace("{skills}/NAME", &code(&tree.skill("NAME")))
        .replace("{work}/out", &code(&format!("{}/out", tree.work())))
        .replace("{work}", &code(&tree.work()))
}
