//! Skills, as clients of the server see them.

use prowess_catalog::{SkillEntry, Trust};
use prowess_serve::{SkillCard, SkillDetail, SkillFile, SkillList, SkillsPart};

use super::own_skills::LABEL;
use crate::visibility::{ChatSkills, chosen_mode};

/// The skills that the model may know: all, or the best matches of a search.
pub(super) fn list(skills: &ChatSkills, search: Option<&str>, part: SkillsPart<'_>) -> SkillList {
    let view = skills.view();
    let hits = search.map(|search| view.search(search));
    let entries: Vec<&SkillEntry> = match &hits {
        Some(hits) => hits.iter().map(|hit| &*hit.entry).collect(),
        None => view.entries().iter().map(|entry| &**entry).collect(),
    };
    let name = |entry: &SkillEntry| entry.skill.name.as_str().to_owned();
    // A skill that is gone ends the list: the client begins again.
    let first = part.after.map_or(0, |after| {
        entries.iter().position(|entry| name(entry) == after).map_or(entries.len(), |at| at + 1)
    });
    let mut rest = entries[first..].iter().filter(|entry| !skills.is_outside_kits(&name(entry)));
    let cards = rest.by_ref().take(part.limit).map(|entry| card(skills, entry)).collect();
    SkillList { skills: cards, has_more: rest.next().is_some() }
}

fn card(skills: &ChatSkills, entry: &SkillEntry) -> SkillCard {
    let skill = &entry.skill;
    let origin = match entry.published() {
        Some(published) => format!("MCP server {}", published.server),
        None if entry.root.label == LABEL => "yours".to_owned(),
        None => entry.root.kind.as_str().to_owned(),
    };
    SkillCard {
        name: skill.name.as_str().to_owned(),
        description: skill.description.clone(),
        origin,
        trusted: entry.trust == Trust::Trusted,
        mode: chosen_mode(skills.mode(entry)).unwrap_or("auto").to_owned(),
        license: skill.license.clone(),
        startable: skill.extensions.user_invocable,
    }
}

/// One of these skills.
pub(super) fn detail(skills: &ChatSkills, name: &str) -> Option<SkillDetail> {
    let entry = skills.view().entries().iter().find(|entry| entry.skill.name.as_str() == name)?;
    let text = entry.read_text().ok()?;
    let resources = entry.resources_with_sizes(skills.options().resource_depth);
    let file =
        |file: &prowess_catalog::resource::Resource| SkillFile { path: file.path.clone(), bytes: file.size };
    Some(SkillDetail {
        card: card(skills, entry),
        instructions: text.body().to_owned(),
        digest: text.digest.to_string(),
        allowed_tools: text.skill.allowed_tools.clone(),
        files: resources.files.iter().map(file).collect(),
    })
}
