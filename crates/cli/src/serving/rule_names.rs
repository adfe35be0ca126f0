//! Which names of skills the rules of a server single out.
//!
//! A rule such as `run "pdf *" = "allow"` is about the server's skill `pdf`, also while that skill is missing. A user's skill
//! must not get what the rule allows.

use prowess_permission::{Decision, Kind, Pattern, Policy, Rule, RuleSource, owned_subject};

/// The kinds whose subjects begin with the name of a skill.
const KINDS: [Kind; 3] = [Kind::SKILL, Kind::RUN, Kind::HOOK];
/// Where rules come from.
const SOURCES: [RuleSource; 5] = [
    RuleSource::Defaults,
    RuleSource::BuiltInAgent,
    RuleSource::User,
    RuleSource::Project,
    RuleSource::Agent,
];

/// Whether a rule that does not deny names a skill of this name.
pub(super) fn names(policy: &Policy, name: &str) -> bool {
    SOURCES.into_iter().flat_map(|source| policy.rules_of(source)).any(|rule| singles_out(rule, name))
}

fn singles_out(rule: &Rule, name: &str) -> bool {
    let is_about_skills = KINDS.iter().any(|kind| rule.kind.matches(kind.as_str()));
    if rule.decision == Decision::Deny || !is_about_skills {
        return false;
    }
    let owner = first_word(rule.pattern.as_str());
    // A pattern for every name singles out none.
    if owner.chars().all(|c| matches!(c, '*' | '?')) {
        return false;
    }
    let subject = owned_subject(name, "");
    let plain = Pattern::parse(&owner.to_lowercase());
    // A name with blanks is written with backslashes in a rule for runs, and without in a rule for loads.
    plain.is_ok_and(|plain| [name, subject.trim_end()].iter().any(|name| plain.matches(&name.to_lowercase())))
        || rule.pattern.only_subject().is_some_and(|only| only.to_lowercase() == name.to_lowercase())
}

/// The text before the first blank without a backslash.
fn first_word(pattern: &str) -> &str {
    let mut is_escaped = false;
    for (at, c) in pattern.char_indices() {
        if c == ' ' && !is_escaped {
            return &pattern[..at];
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_a_name_count_and_rules_for_all_do_not() {
        let named = |kind: &str, pattern: &str, decision, name: &str| {
            let rules = [Rule::new(kind, pattern, decision)];
            names(&Policy::new().rules(RuleSource::User, rules), name)
        };
        let allow = Decision::Allow;
        for (kind, pattern, name) in [
            ("run", "pdf *", "pdf"),
            ("run", "pdf *", "PDF"),
            ("run", "Pdf scripts/x.py", "pdf"),
            ("run", "pdf*", "pdf-tools"),
            ("run", "git status", "git"),
            ("*", "pdf", "pdf"),
            ("hook", "fmt PostToolUse", "fmt"),
            ("skill", "two words", "two words"),
            ("run", "two\\ words *", "two words"),
        ] {
            assert!(named(kind, pattern, allow, name), "{kind} {pattern} {name}");
            assert!(!named(kind, pattern, Decision::Deny, name), "{kind} {pattern} {name}");
        }
        for (kind, pattern, name) in [
            ("run", "*", "pdf"),
            ("run", "* scripts/x.py", "pdf"),
            ("skill", "*", "pdf"),
            ("run", "pdf *", "pdf-tools"),
            ("read", "pdf", "pdf"),
            ("network", "pdf", "pdf"),
        ] {
            assert!(!named(kind, pattern, allow, name), "{kind} {pattern} {name}");
        }
    }
}
