//! Conflicts: what a model reads if a change does not fit the state or the budgets.

use crate::delta::SkillDelta;
use crate::error::SkillError;
use crate::load::OverBudget;
use crate::options::SessionOptions;
use crate::state::{Conflict, SkillState};

/// The error if the state did not accept `deltas`.
pub(crate) fn conflict_error(
    options: &SessionOptions,
    name: &str,
    deltas: &[SkillDelta],
    conflict: Conflict,
    state: &SkillState,
) -> SkillError {
    match conflict {
        Conflict::LimitReached => limit_reached(options, name, state),
        Conflict::OverBudget => {
            let selects_only = deltas.iter().all(|delta| matches!(delta, SkillDelta::Selected { .. }));
            SkillError::OverBudget {
                what: if selects_only { OverBudget::Documents } else { OverBudget::Skill },
                tokens: deltas.iter().map(tokens_of).sum(),
                budget: options.budgets.max_loaded_tokens.unwrap_or(usize::MAX),
                loaded: state.names().map(|name| (name.to_owned(), state.tokens_of(name))).collect(),
                name: name.to_owned(),
                dialect: options.dialect,
            }
        }
        Conflict::TooManyDocuments => {
            let left_out = deltas.iter().flat_map(documents_of).collect();
            let most = options.budgets.max_document_bytes;
            SkillError::TooManyDocuments { name: name.to_owned(), most, left_out }
        }
        Conflict::NotLoaded | Conflict::AlreadyLoaded | Conflict::Outdated => {
            let loaded = state.names().map(str::to_owned).collect();
            SkillError::NotLoaded { name: name.to_owned(), loaded }
        }
    }
}

/// The error if the maximum number of skills is loaded.
pub(crate) fn limit_reached(options: &SessionOptions, name: &str, state: &SkillState) -> SkillError {
    let limit = options.budgets.max_loaded_skills;
    let loaded: Vec<String> = state.names().map(str::to_owned).collect();
    let count = loaded.len();
    tracing::warn!(skill = name, loaded = count, limit, "Skill loading limit reached ({count}/{limit})");
    SkillError::LimitReached { name: name.to_owned(), limit, loaded, dialect: options.dialect }
}

fn documents_of(delta: &SkillDelta) -> Vec<String> {
    match delta {
        SkillDelta::Selected { documents, .. } => documents.iter().map(|found| found.path.clone()).collect(),
        _ => Vec::new(),
    }
}

fn tokens_of(delta: &SkillDelta) -> usize {
    match delta {
        SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } => skill.tokens,
        SkillDelta::Selected { documents, .. } => documents.iter().map(|document| document.tokens).sum(),
        SkillDelta::DocumentChanged { document, .. } => document.as_ref().map_or(0, |found| found.tokens),
        SkillDelta::Unloaded { .. }
        | SkillDelta::Led { .. }
        | SkillDelta::Offered { .. }
        | SkillDelta::Used { .. } => 0,
    }
}
