//! Searches the skills for a model.

use prowess_catalog::SearchHit;
use prowess_catalog::overview::short_line;
use prowess_catalog::untrusted::code_text;
use serde_json::json;

use crate::answer::SkillAnswer;
use crate::error::shorten;
use crate::view::SkillView;

/// How many skills an answer lists if the call does not say.
const DEFAULT_HITS: usize = 10;
/// The most skills that an answer lists.
const MAX_HITS: usize = 50;
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 24 * 1024;
/// The most bytes that one skill may take. Of a longer one, only the start of its description is shown.
const MAX_HIT_BYTES: usize = 6 * 1024;
/// How many characters of its description.
const SHORT_HIT_CHARS: usize = 300;

impl SkillView {
    /// The skills that match a query, best first: those of the overview, also if the overview has no room for them.
    ///
    /// ```
    /// use prowess_skills::SkillSession;
    ///
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # std::fs::create_dir(scratch.path().join("greet"))?;
    /// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
    /// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// let session = SkillSession::builder(catalog).build().await;
    /// assert!(session.view().search("say hello", None).text.contains("- **greet**: Says hello."));
    /// # Ok(())
    /// # }
    /// ```
    pub fn search(&self, query: &str, limit: Option<usize>) -> SkillAnswer {
        self.search_answer(self.offered().search(query), query, limit)
    }

    /// The answer of a search that found these skills.
    pub(crate) fn search_answer(
        &self,
        mut hits: Vec<SearchHit>,
        query: &str,
        limit: Option<usize>,
    ) -> SkillAnswer {
        let may_load = |name: &str| self.found_by_model(name).is_some();
        hits.retain(|hit| may_load(hit.entry.skill.name.as_str()));
        let found = hits.len();
        hits.truncate(limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS));
        let mut lines = Vec::new();
        let mut room = MAX_ANSWER_BYTES;
        for hit in &hits {
            let mut line = self.overview_of_entries(std::iter::once(&*hit.entry));
            if line.len() > MAX_HIT_BYTES {
                line = short_line(&hit.entry, SHORT_HIT_CHARS);
            }
            if line.len() > room {
                break;
            }
            room = room.saturating_sub(line.len());
            lines.push(line);
        }
        hits.truncate(lines.len());
        let names: Vec<&str> = hits.iter().map(|hit| hit.entry.skill.name.as_str()).collect();
        let data = json!({"skills": names, "found": found});
        let text = if hits.is_empty() {
            none_found(self.offered_names().len(), query)
        } else {
            let more = match found - hits.len() {
                0 => String::new(),
                more => format!("\n\n{more} more match less well. To find others, search with other words."),
            };
            format!("{}{more}", lines.join("\n"))
        };
        SkillAnswer { text, data: Some(data), ..SkillAnswer::default() }
    }
}

fn none_found(all: usize, query: &str) -> String {
    if all == 0 {
        return "There are no skills. The user can install some, with `prowess add` or `/add`.".to_owned();
    }
    format!(
        "None of the {all} skills matches \"{}\". Search with other words, such as the name of a tool, a file format or a \
         task.",
        code_text(&shorten(query))
    )
}
