//! A tool as data: its name, kind, description and parameters.

use serde_json::Value;

use super::SkillToolKind;

/// A tool as data, for any agent.
///
/// ```
/// use prowess_skills::{SkillToolKind, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).build().await;
/// let tools = session.tools();
/// let unload = tools.iter().find(|tool| tool.kind == SkillToolKind::Unload).unwrap();
/// assert_eq!(unload.name, "unload_skill");
/// assert_eq!(unload.skill_in(&serde_json::json!({"skill_name": "pdf"})), Some("pdf"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name for the model.
    pub name: &'static str,
    /// What it does.
    #[serde(rename = "act")]
    pub kind: SkillToolKind,
    /// Its description for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// The argument that names the skill, if one does.
    #[serde(skip)]
    pub skill_argument: Option<&'static str>,
}

impl ToolSpec {
    /// Whether an interrupted call may be repeated: it runs nothing.
    pub fn is_idempotent(&self) -> bool {
        self.kind.is_idempotent()
    }

    /// The skill that a call with these arguments is about.
    pub fn skill_in<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        arguments.get(self.skill_argument?)?.as_str()
    }
}
