//! Reads the overview of skills back from a request.

use prowess_agent::ModelRequest;
use prowess_agent::model::ToolDefinition;

/// A skill, as the overview lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedSkill {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) is_loaded: bool,
}

/// The tools that load skills, and the names of their parameter for the skill.
const LOAD_TOOLS: [(&str, &str); 3] =
    [("load_skill", "skill_name"), ("skill_load", "skill"), ("skill", "name")];

/// The heading of the list in a system prompt.
const HEADING: &str = "**Available Skills:**";

/// The tool that loads skills.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadTool<'a> {
    pub(super) tool: &'a ToolDefinition,
    pub(super) parameter: &'static str,
}

impl<'a> LoadTool<'a> {
    /// The load tool of a request, if it has one.
    pub(super) fn offered(request: &'a ModelRequest) -> Option<Self> {
        LOAD_TOOLS.iter().find_map(|(name, parameter)| {
            let tool = request.tools.iter().find(|tool| tool.name == *name)?;
            Some(Self { tool, parameter })
        })
    }

    /// The names that it accepts, if its schema lists them.
    fn names(&self) -> Option<Vec<&'a str>> {
        let pointer = format!("/properties/{}/enum", self.parameter);
        let names = self.tool.parameters.pointer(&pointer)?.as_array()?;
        Some(names.iter().filter_map(|name| name.as_str()).collect())
    }
}

/// The skills that a request lists, in order.
pub(super) fn listed_skills(request: &ModelRequest) -> Vec<ListedSkill> {
    let system = request.system_text();
    let load_tool = LoadTool::offered(request);
    let mut skills = in_list(&system);
    if let Some(load_tool) = &load_tool {
        skills.extend(in_xml(&load_tool.tool.description));
    }
    skills.extend(in_xml(&system));
    // Other lists may look like this one. A loaded skill need not be among the names.
    if let Some(names) = load_tool.and_then(|load_tool| load_tool.names()) {
        skills.retain(|skill| skill.is_loaded || names.contains(&skill.name.as_str()));
    }
    skills
}

/// Entries such as `- **name** [Loaded]: description`, with lines about them beneath.
fn in_list(system: &str) -> Vec<ListedSkill> {
    let list = system.rfind(HEADING).map_or(system, |at| &system[at + HEADING.len()..]);
    list.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<ListedSkill> {
    let (name, rest) = line.strip_prefix("- **")?.split_once("**")?;
    let (mark, description) = rest.split_once(": ")?;
    // The labels of roots contain spaces, but names of skills do not.
    if name.is_empty() || name.contains(char::is_whitespace) || !matches!(mark, "" | " [Loaded]") {
        return None;
    }
    let is_loaded = !mark.is_empty();
    if description.ends_with("(Manual only)") && !is_loaded {
        return None;
    }
    // License and compatibility say nothing about what the skill is for.
    let notes = [" (License: ", " (Compatibility: "].iter().filter_map(|note| description.find(note)).min();
    let description = &description[..notes.unwrap_or(description.len())];
    let name = unescaped(&name.replace('\\', ""));
    Some(ListedSkill { name, description: unescaped(description), is_loaded })
}

/// Elements such as `<skill><name>…</name><description>…</description></skill>`.
fn in_xml(text: &str) -> Vec<ListedSkill> {
    let Some((_, list)) = text.split_once("<available_skills>") else { return Vec::new() };
    let list = list.split("</available_skills>").next().unwrap_or(list);
    let element = |skill: &str, tag: &str| {
        let (_, rest) = skill.split_once(&format!("<{tag}>"))?;
        Some(unescaped(rest.split_once(&format!("</{tag}>"))?.0.trim()))
    };
    let skills = list.split("<skill>").skip(1).filter_map(|skill| {
        let (name, description) = (element(skill, "name")?, element(skill, "description")?);
        Some(ListedSkill { name, description, is_loaded: false })
    });
    skills.collect()
}

/// The instructions of a loaded skill, from wherever they are. The latest count.
pub(super) fn instructions(request: &ModelRequest, name: &str) -> Option<String> {
    let results = request.messages.iter().rev().map(|message| message.text());
    let mut texts = results.chain([request.system_text()]);
    texts.find_map(|text| framed(&text, name).map(ToOwned::to_owned))
}

/// The text between `<skill name="…" … nonce="…">` and its closing tag, unless it is a document of the skill.
fn framed<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text;
    while let Some(at) = rest.find("<skill name=\"") {
        rest = &rest[at + "<skill name=\"".len()..];
        let Some((tag, inner)) = rest.split_once(">\n") else { continue };
        let Some((found, attributes)) = tag.split_once('"') else { continue };
        let Some((_, nonce)) = attributes.rsplit_once(" nonce=") else { continue };
        let Some(end) = inner.find(&format!("</skill nonce={nonce}>")) else { continue };
        if unescaped(found) == name && !attributes.contains(" document=\"") {
            return Some(&inner[..end]);
        }
        rest = &inner[end..];
    }
    None
}

fn unescaped(text: &str) -> String {
    let escapes = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")];
    escapes.iter().fold(text.to_owned(), |text, (escape, c)| text.replace(escape, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(skills: &[ListedSkill]) -> Vec<&str> {
        skills.iter().map(|skill| skill.name.as_str()).collect()
    }

    #[test]
    fn the_list_in_a_system_prompt() {
        let system = "\
- **User skills**: `/home/u/skills`

**Available Skills:**

- **pdf**: Read and fill &lt;forms&gt; (License: MIT)
  -> Use `load_skill(\"pdf\")` to read full instructions
- **log** [Loaded]: Write logs
  -> Resources: 1 script
- **deploy**: Deploy it (Manual only)
- **two words**: No skill
- plain: No skill

1. **Recognize when a skill applies**: Check";
        let skills = in_list(system);
        assert_eq!(names(&skills), ["pdf", "log"]);
        assert_eq!(skills[0].description, "Read and fill <forms>");
        assert!(skills[1].is_loaded);
    }

    #[test]
    fn the_list_of_a_tool() {
        let text = "Load a skill.\n<available_skills>\n<skill>\n<name>\na&amp;b\n</name>\n<description>\nX\n\
                    </description>\n<location>\n/s\n</location>\n</skill>\n</available_skills>";
        assert_eq!(names(&in_xml(text)), ["a&b"]);
        assert!(in_xml("<skill><name>x</name>").is_empty());
    }

    #[test]
    fn instructions_in_their_frame() {
        let text = "x <skill name=\"a\" dir=\"/a\" document=\"b.md\" nonce=\"1\">\ndoc\n</skill nonce=\"1\"> \
                    <skill name=\"a\" dir=\"/a\" nonce=\"2\">\nWave.\n</skill>\n</skill nonce=\"2\">";
        assert_eq!(framed(text, "a"), Some("Wave.\n</skill>\n"));
        assert_eq!(framed(text, "b"), None);
        assert_eq!(framed("<skill name=\"a\" nonce=\"2\">\ncut", "a"), None);
    }
}
