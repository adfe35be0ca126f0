//! Measures a policy of many rules that all have to be checked.

use std::hint::black_box;

use anyhow::{Result, ensure};
use prowess_permission::{Decision, Kind, Policy, Question, Rule, RuleSource};

use crate::task::{Sample, cpu_of};

/// The number of rules, including the one that matches.
const RULES: usize = 1_000;
/// One evaluation is shorter than the resolution of the clock.
const EVALUATIONS: u32 = 1_000;

/// The subject: a command of ordinary length.
const SUBJECT: &str = "cargo nextest run --workspace --all-features --locked";

/// Evaluates a question that only the first rule matches. The last match wins, so the search starts at the other end.
pub(crate) fn first_matches() -> Result<Sample> {
    evaluate(Rule::new("run", "cargo * --workspace *", Decision::Allow), Decision::Allow)
}

/// Evaluates a question that no rule matches.
pub(crate) fn none_matches() -> Result<Sample> {
    evaluate(Rule::new("run", "cargo * --release *", Decision::Allow), Decision::Ask)
}

fn evaluate(first: Rule, expected: Decision) -> Result<Sample> {
    let rules = std::iter::once(first).chain((1..RULES).map(other_rule));
    let policy = Policy::empty().rules(RuleSource::User, rules);
    let question = Question::new(Kind::RUN, SUBJECT);
    let verdict = policy.evaluate(&question);
    ensure!(verdict.decision == expected, "the decision was {}", verdict.decision);
    let (cpu_ms, ()) =
        cpu_of(|| (0..EVALUATIONS).for_each(|_| drop(black_box(policy.evaluate(black_box(&question))))));
    Sample::of(cpu_ms / f64::from(EVALUATIONS), policy.rules_of(RuleSource::User).len())
}

/// A rule that does not match the subject. Six of eight are about the same kind of action, and four of these begin like
/// the subject.
fn other_rule(number: usize) -> Rule {
    let action = [Decision::Allow, Decision::Ask, Decision::Deny][number % 3];
    let (kind, pattern) = match number % 8 {
        // Literals.
        0 => ("run", format!("{SUBJECT} --package crate-{number}")),
        1 => ("read", format!("/srv/data/project-{number}/README.md")),
        // Prefixes.
        2 => ("run", format!("cargo nextest run --package crate-{number} *")),
        3 => ("run", format!("git -C project-{number} *")),
        // Wildcards inside and in front.
        4 => ("run", format!("cargo * --features feature-{number} *")),
        5 => ("*", format!("*/project-{number}/*")),
        // Single characters.
        6 => ("run", format!("cargo ??????? run --test test-{number}?")),
        _ => ("w?ite", format!("/srv/data/*/file-{number}.???")),
    };
    Rule::new(kind, &pattern, action)
}
