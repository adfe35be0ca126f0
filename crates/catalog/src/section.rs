//! The section of a system prompt that contains the overview.

use std::fmt;

use crate::overview::Rendered;

const LOCATIONS: &str = "{skills_locations}";
const LIST: &str = "{skills_list}";

const OPENING: &str = "

## Skills System

You have access to a skills library that provides specialized capabilities and domain knowledge.

{skills_locations}

**Available Skills:**

{skills_list}

**How to Use Skills (Progressive Disclosure):**

Skills follow a **progressive disclosure** pattern - you see their name and description above, but only read full instructions when needed:

1. **Recognize when a skill applies**: Check if the user's task matches a skill's description
";

const CLOSING: &str = r#"
**When to Use Skills:**
- User's request matches a skill's domain
- You need specialized knowledge or structured workflows
- A skill provides proven patterns for complex tasks

Remember: Skills make you more capable and consistent. When in doubt, check if a skill exists for the task!
"#;

/// A template with the slots `{skills_locations}` and `{skills_list}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionTemplate(String);

impl Default for SectionTemplate {
    /// The section for the tools `load_skill` and `unload_skill`.
    fn default() -> Self {
        Self::for_tools("load_skill", "unload_skill")
    }
}

/// Why a text is not a [`SectionTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template has no slot for the list of skills.
    NoList,
    /// The template has an unknown slot.
    UnknownSlot(String),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList => write!(f, "the template has no {LIST}; put it where the list of skills belongs"),
            Self::UnknownSlot(slot) => {
                write!(
                    f,
                    "the template has the unknown slot {slot}; the known slots are {LOCATIONS} and {LIST}"
                )
            }
        }
    }
}

impl std::error::Error for TemplateError {}

impl SectionTemplate {
    /// The section for a model that loads and unloads skills with tools of these names.
    pub fn for_tools(load: &str, unload: &str) -> Self {
        Self::with_steps(&format!(
            r#"2. **Load the skill**: Use `{load}("skill-name")` to read full instructions and discover resources
3. **Follow the skill's instructions**: The loaded content contains step-by-step workflows, best practices, and examples
4. **Access supporting files**: Use the resource paths shown in the loaded skill output with `read_file`
5. **Unload when done**: Use `{unload}("skill-name")` to free up a loading slot when a skill is no longer needed
"#
        ))
    }

    /// The section with other steps after the first step, "recognize when a skill applies". The steps begin with `2.`, and
    /// each ends with a line break.
    pub fn with_steps(steps: &str) -> Self {
        Self([OPENING, steps, CLOSING].concat())
    }

    /// The section for a model that reads the files itself.
    pub fn for_reading() -> Self {
        Self::with_steps(
            "2. **Read the skill's full instructions**: Use `read_file` with the path shown in the list above
3. **Follow the skill's instructions**: SKILL.md contains step-by-step workflows, best practices, and examples
4. **Access supporting files**: Paths in SKILL.md are relative to its directory; read them when they are needed
",
        )
    }

    /// Parses a template, and checks its slots.
    ///
    /// ```
    /// use prowess_catalog::section::SectionTemplate;
    ///
    /// assert!(SectionTemplate::parse("Skills:\n{skills_list}").is_ok());
    /// assert!(SectionTemplate::parse("Skills: {skill_list}").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        for (at, _) in text.match_indices('{') {
            let slot = text[at + 1..].split_once('}').map(|(slot, _)| slot);
            let Some(slot) = slot.filter(|slot| {
                !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            }) else {
                continue;
            };
            if !matches!(slot, "skills_locations" | "skills_list") {
                return Err(TemplateError::UnknownSlot(format!("{{{slot}}}")));
            }
        }
        if text.contains(LIST) { Ok(Self(text.to_owned())) } else { Err(TemplateError::NoList) }
    }

    /// Fills the slots. The inserted texts are not searched for slots.
    pub fn render(&self, locations: &str, list: &str) -> Rendered {
        let mut text = String::with_capacity(self.0.len() + locations.len() + list.len());
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find('{') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix(LOCATIONS) {
                text.push_str(locations);
                rest = after;
            } else if let Some(after) = rest.strip_prefix(LIST) {
                text.push_str(list);
                rest = after;
            } else {
                text.push('{');
                rest = &rest[1..];
            }
        }
        text.push_str(rest);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_checked_and_filled_once() {
        assert_eq!(SectionTemplate::parse("no slots"), Err(TemplateError::NoList));
        assert_eq!(SectionTemplate::parse("{skills}"), Err(TemplateError::UnknownSlot("{skills}".into())));
        let template = SectionTemplate::parse("{\"json\": 1} {skills_list} at {skills_locations}").unwrap();
        let rendered = template.render("{skills_list}", "L");
        assert_eq!(rendered.text, "{\"json\": 1} L at {skills_list}");
        for template in [SectionTemplate::default(), SectionTemplate::for_reading()] {
            assert_eq!(SectionTemplate::parse(&template.0), Ok(template));
        }
    }
}
