//! `/kit`

use anyhow::Result;

use super::note;
use crate::chat::conversation::Conversation;
use crate::config::NO_KIT;
use crate::terminal::{Style, count, printable, styled};

/// A row for each kit, and a line about the kits in use.
pub(super) fn rows(conversation: &Conversation) -> (Vec<String>, String) {
    let (settings, catalog) = (&conversation.agents.config.settings.skills, conversation.agents.catalog());
    let in_use = settings.kits_in_use();
    let row = |name: &str| {
        let kit = settings.kit_named(name).unwrap_or_default();
        let skills = catalog.entries().iter().filter(|entry| kit.has(entry.skill.name.as_str())).count();
        let mark = if in_use.contains(&name) { styled("+", Style::Good) } else { " ".to_owned() };
        let skills = styled(count(skills, "skill"), Style::Faint);
        format!("{mark} {}  {skills}", styled(printable(name), Style::Name))
    };
    let rows: Vec<String> = settings.kit_names().map(row).collect();
    let line = match (rows.is_empty(), in_use.is_empty()) {
        (true, _) => "There are no kits. [skills.kit] in prowess.toml defines them.".to_owned(),
        (false, true) => "No kit is in use: the model sees all skills. /kit NAME uses one.".to_owned(),
        (false, false) => {
            format!("In use: {}. /kit {NO_KIT} uses all skills.", printable(&in_use.join(", ")))
        }
    };
    (rows, line)
}

/// The words that can follow `/kit`.
pub(super) fn choices(conversation: &Conversation) -> Vec<String> {
    let mut names: Vec<String> =
        conversation.agents.config.settings.skills.kit_names().map(str::to_owned).collect();
    if !names.is_empty() {
        names.push(NO_KIT.to_owned());
    }
    names
}

/// Puts kits into use, from the next message on.
pub(super) fn choose(conversation: &mut Conversation, kits: &[String]) -> Result<()> {
    conversation.agents.use_kits(kits)?;
    let skills = count(conversation.agents.visible_skills().view().entries().len(), "skill");
    let kits = conversation.agents.config.settings.skills.kits_in_use().join(", ");
    note(
        conversation,
        match kits.as_str() {
            "" => format!("no kit is in use: the model sees all skills ({skills})"),
            kits => format!("in use: {}; the model sees {skills}", printable(kits)),
        },
    )
}
