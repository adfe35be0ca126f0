//! Notices about the context window: what fills it, and what would help.

use prowess_agent::middleware::{SummarisationNotice, WindowUse};

use super::describe::tokens;
use crate::terminal::printable;

/// A notice, for a person.
pub(super) fn text(notice: &SummarisationNotice) -> String {
    match notice {
        SummarisationNotice::Full(used) => full(used),
        SummarisationNotice::Learned { model, window } => format!(
            "{} reads fewer tokens than expected: this thread now keeps its requests below {}",
            printable(model),
            tokens(*window)
        ),
        _ => "the context window is nearly full".to_owned(),
    }
}

fn full(used: &WindowUse) -> String {
    let parts = [
        ("system prompt", used.system_prompt),
        ("tools", used.tools),
        ("skills overview", used.overview),
        ("loaded skills", used.loaded_skills),
        ("your message", used.request),
        ("the rest", used.rest),
    ];
    let parts = parts.into_iter().filter(|(_, size)| *size > 0);
    let parts: Vec<String> = parts.map(|(what, size)| format!("{what} {}", tokens(size))).collect();
    let of_window = used.window.map(|window| format!(" of {}", tokens(window))).unwrap_or_default();
    format!(
        "a summary would free too little of the context window. About {}{of_window} tokens are in use: {}. {}",
        tokens(used.total()),
        parts.join(", "),
        help(used)
    )
}

/// What makes the largest part smaller.
fn help(used: &WindowUse) -> &'static str {
    let fixed = used.system_prompt + used.tools + used.overview;
    match used.loaded_skills.max(used.request).max(used.rest).max(fixed) {
        most if most == used.request => {
            "Send a shorter message, for example with the name of a file instead of its text"
        }
        most if most == used.loaded_skills => "`/unload NAME` takes a skill out",
        most if most == fixed => {
            "A model with a larger context window helps, and so do fewer MCP servers, skills and lines in AGENTS.md"
        }
        _ => "`/compact` summarises all but the last message, and `/new` starts a new thread",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_decides_what_helps() {
        let used = |change: fn(&mut WindowUse)| {
            let mut used = WindowUse::default();
            used.window = Some(20_000);
            change(&mut used);
            text(&SummarisationNotice::Full(used))
        };
        let loaded = used(|used| (used.tools, used.loaded_skills, used.rest) = (3_000, 12_000, 2_345));
        assert_eq!(
            loaded,
            "a summary would free too little of the context window. About 17.3k of 20.0k tokens are in use: tools 3.0k, \
             loaded skills 12.0k, the rest 2.3k. `/unload NAME` takes a skill out"
        );
        assert!(used(|used| used.request = 30_000).contains("Send a shorter message"));
        assert!(
            used(|used| (used.system_prompt, used.overview) = (9_000, 9_000))
                .contains("larger context window")
        );
        assert!(used(|used| used.rest = 18_000).contains("`/compact`"));
    }
}
