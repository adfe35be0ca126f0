//! The policy: rules from several sources, and what they decide.

use std::path::PathBuf;
use std::sync::Arc;

use crate::real_path::real_path;
use crate::rule::Subject;
use crate::{Decision, Kind, Question, RealPath, Rule, RuleSource};

/// The rules of all [`RuleSource`]s. A policy decides without I/O.
///
/// For each subject the last matching rule wins; rules of a later source come after those of an earlier one. Without a
/// match the decision is [`Decision::Ask`].
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
///
/// let policy = Policy::new().rules(
///     RuleSource::User,
///     [Rule::new("run", "git *", Decision::Allow), Rule::new("run", "git push *", Decision::Ask)],
/// );
/// assert_eq!(policy.decide(&Kind::RUN, "git log").decision, Decision::Allow);
/// assert_eq!(policy.decide(&Kind::RUN, "git push").decision, Decision::Ask);
/// assert_eq!(policy.decide(&Kind::SKILL, "pdf").decision, Decision::Allow, "by default");
/// assert_eq!(policy.decide(&Kind::WRITE, "notes.md").decision, Decision::Ask, "no rule");
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    by_source: [Arc<[Rule]>; RuleSource::ALL.len()],
    /// The real paths of the places to which it is confined.
    confined: Option<Arc<[String]>>,
}

impl Policy {
    /// The built-in defaults: skills may be loaded; prowess asks about everything else.
    #[must_use]
    pub fn new() -> Self {
        Self::empty().rules(RuleSource::Defaults, [Rule::new("skill", "*", Decision::Allow)])
    }

    /// No rules: prowess asks about everything.
    #[must_use]
    pub fn empty() -> Self {
        Self { by_source: std::array::from_fn(|_| Arc::from([])), confined: None }
    }

    /// Adds `rules` after the rules that `source` already has.
    #[must_use]
    pub fn rules(mut self, source: RuleSource, rules: impl IntoIterator<Item = Rule>) -> Self {
        let of_source = &mut self.by_source[source.index()];
        *of_source = of_source.iter().cloned().chain(rules).collect();
        self
    }

    /// Denies every file outside of these places, whatever the rules say. The rules decide about files inside. A server uses
    /// this, so that its users reach none of its own files.
    ///
    /// ```
    /// use std::path::Path;
    /// use prowess_permission::{Decision, Kind, Policy, Question, RealPath, Rule, RuleSource};
    ///
    /// let policy = Policy::new()
    ///     .rules(RuleSource::User, [Rule::new("read", "*", Decision::Allow)])
    ///     .confined(["/srv/threads/1".into()]);
    /// let decision = |path: &str| {
    ///     let file = RealPath::known(Path::new(path), Path::new(path), false);
    ///     policy.evaluate(&Question::about_file(Kind::READ, file)).decision
    /// };
    /// assert_eq!(decision("/srv/threads/1/plan.md"), Decision::Allow);
    /// assert_eq!(decision("/srv/threads/12/plan.md"), Decision::Deny);
    /// ```
    #[must_use]
    pub fn confined(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        let places = places.into_iter().map(|place| real_path(&place).to_string_lossy().into_owned());
        self.confined = Some(places.collect());
        self
    }

    /// Whether the policy is confined to places that do not have this file.
    fn is_outside(&self, question: &Question) -> bool {
        let (Some(places), Some(file)) = (&self.confined, &question.file) else { return false };
        let is_in = |place: &String| {
            let rest = file.real().strip_prefix(place.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        question.kind.has_path_subjects() && !places.iter().any(is_in)
    }

    /// Replaces the rules of `source`.
    pub fn set(&mut self, source: RuleSource, rules: Vec<Rule>) {
        self.by_source[source.index()] = rules.into();
    }

    /// Whether both hold the same rules, and nobody has replaced any of them.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.confined == other.confined
            && self.by_source.iter().zip(&other.by_source).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// The rules of `source`, in order.
    #[must_use]
    pub fn rules_of(&self, source: RuleSource) -> &[Rule] {
        &self.by_source[source.index()]
    }

    /// Whether any rule denies something.
    ///
    /// ```
    /// use prowess_permission::{Decision, Policy, Rule, RuleSource};
    ///
    /// let policy = Policy::new();
    /// assert!(!policy.denies_anything());
    /// assert!(policy.rules(RuleSource::User, [Rule::new("read", "*.key", Decision::Deny)]).denies_anything());
    /// ```
    pub fn denies_anything(&self) -> bool {
        let mut rules = RuleSource::ALL.into_iter().flat_map(|source| self.rules_of(source));
        self.confined.is_some() || rules.any(|rule| rule.decision == Decision::Deny)
    }

    /// What the rules decide about one subject.
    #[must_use]
    pub fn decide(&self, kind: &Kind, subject: &str) -> Verdict {
        verdict(subject, self.last_match(kind, &Subject::new(subject, false)))
    }

    /// What the rules decide about a question: the strictest decision over all its subjects, and the first subject with
    /// this decision. A question without subjects is never allowed. For a file, `ask` and `deny` rules for its other paths
    /// also apply.
    #[must_use]
    pub fn evaluate(&self, question: &Question) -> Verdict {
        if self.is_outside(question) {
            let name = question.file.as_ref().map_or("", RealPath::name);
            return Verdict { decision: Decision::Deny, subject: name.to_owned(), rule: None };
        }
        let strictest = question
            .subjects
            .iter()
            .map(|subject| (subject.as_str(), self.rule_for_subject(question, subject)))
            .chain(question.file.iter().flat_map(|file| self.rules_for_other_paths(&question.kind, file)))
            .reduce(|so_far, next| if decision(next.1) > decision(so_far.1) { next } else { so_far });
        match strictest {
            _ if question.subjects.is_empty() => {
                let verdict = self.decide(&question.kind, "");
                let decision = verdict.decision.max(Decision::Ask);
                // An `allow` rule is not the reason for asking.
                let rule = verdict.rule.filter(|(_, rule)| rule.decision == decision);
                Verdict { decision, rule, ..verdict }
            }
            Some((subject, rule)) if question.each_time && decision(rule) == Decision::Allow => {
                Verdict { decision: Decision::Ask, subject: subject.to_owned(), rule: None }
            }
            // A refusal names a file by the path that the caller used.
            Some((subject, rule)) if decision(rule) == Decision::Deny => {
                let own = question.file.as_ref().filter(|file| file.real() == subject);
                verdict(own.map_or(subject, RealPath::name), rule)
            }
            Some((subject, rule)) => verdict(subject, rule),
            None => verdict("", None),
        }
    }

    /// Whether rules allow one subject of a question, under every path of the file.
    pub(crate) fn allows(&self, question: &Question, subject: &str) -> bool {
        let own = question.file.iter().filter(|file| file.real() == subject);
        let mut others = own.flat_map(|file| self.rules_for_other_paths(&question.kind, file));
        decision(self.rule_for_subject(question, subject)) == Decision::Allow
            && others.all(|(_, rule)| decision(rule) == Decision::Allow)
    }

    /// Whether all that the rules ask about a question, they ask about everything of its kind: no rule names it, or a file
    /// that it is about, and no guard does.
    pub(crate) fn asks_in_general(&self, question: &Question) -> bool {
        let own = question.subjects.iter().map(|subject| self.rule_for_subject(question, subject));
        let files = question.file.iter().flat_map(|file| self.rules_for_other_paths(&question.kind, file));
        own.chain(files.map(|(_, rule)| rule)).flatten().all(|(_, rule)| {
            rule.decision == Decision::Allow || (rule.matches_everything() && !rule.is_guard())
        })
    }

    fn rule_for_subject(&self, question: &Question, subject: &str) -> Option<(RuleSource, &Rule)> {
        let ignores_case = question.file.as_ref().is_some_and(RealPath::ignores_case);
        self.last_match(&question.kind, &Subject::new(subject, ignores_case))
    }

    /// The rules for the other paths of a file. For its paths in a backend, only rules written in code for a backend count:
    /// on this machine the same path is another file.
    fn rules_for_other_paths<'a>(
        &'a self,
        kind: &'a Kind,
        file: &'a RealPath,
    ) -> impl Iterator<Item = (&'a str, Option<(RuleSource, &'a Rule)>)> {
        let with_links = file
            .with_links()
            .into_iter()
            .map(move |path| (path, self.last_match(kind, &Subject::new(path, file.ignores_case()))));
        let in_backend = file.paths_in_backend().iter().filter_map(move |path| {
            let subject = Subject::new(path, file.ignores_case());
            let found = self.last_where(|rule| rule.is_for_backend() && rule.applies_to(kind, &subject))?;
            Some((file.name(), Some(found)))
        });
        with_links.chain(in_backend)
    }

    /// The rule that decides. A guard overrides an `allow` or `ask` rule for everything.
    fn last_match(&self, kind: &Kind, subject: &Subject<'_>) -> Option<(RuleSource, &Rule)> {
        let found = self.last_where(|rule| rule.applies_to(kind, subject));
        let is_weak =
            found.is_none_or(|(_, rule)| rule.decision != Decision::Deny && rule.matches_everything());
        if !is_weak || !kind.has_path_subjects() {
            return found;
        }
        self.last_where(|rule| rule.is_guard() && rule.applies_to(kind, subject)).or(found)
    }

    fn last_where(&self, is_match: impl Fn(&Rule) -> bool) -> Option<(RuleSource, &Rule)> {
        RuleSource::ALL.into_iter().rev().find_map(|source| {
            let rule = self.rules_of(source).iter().rev().find(|rule| is_match(rule))?;
            Some((source, rule))
        })
    }
}

fn decision(rule: Option<(RuleSource, &Rule)>) -> Decision {
    rule.map_or(Decision::Ask, |(_, rule)| rule.decision)
}

fn verdict(subject: &str, rule: Option<(RuleSource, &Rule)>) -> Verdict {
    let decision = decision(rule);
    Verdict { decision, subject: subject.to_owned(), rule: rule.map(|(source, rule)| (source, rule.clone())) }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// A decision, its subject and the rule behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The subject: of several, the first one with the strictest decision.
    pub subject: String,
    /// The winning rule and its source; `None` if no rule matched.
    pub rule: Option<(RuleSource, Rule)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, decision: Decision) -> Rule {
        Rule::new("run", pattern, decision)
    }

    #[test]
    fn the_last_match_wins_across_and_inside_sources() {
        let policy = Policy::empty()
            .rules(RuleSource::Session, [rule("a", Decision::Allow)])
            .rules(RuleSource::User, [rule("*", Decision::Deny), rule("b", Decision::Ask)]);
        assert_eq!(policy.decide(&Kind::RUN, "a").decision, Decision::Allow);
        assert_eq!(policy.decide(&Kind::RUN, "b").decision, Decision::Ask);
        assert_eq!(policy.decide(&Kind::RUN, "c").rule, Some((RuleSource::User, rule("*", Decision::Deny))));
    }

    #[test]
    fn the_strictest_subject_decides_a_question() {
        let policy =
            Policy::empty().rules(RuleSource::User, [rule("a", Decision::Allow), rule("d", Decision::Deny)]);
        let verdict = |subjects: &[&str]| {
            let first = Question::new(Kind::RUN, subjects[0]);
            let question = subjects[1..].iter().fold(first, |question, subject| question.subject(*subject));
            let verdict = policy.evaluate(&question);
            (verdict.decision, verdict.subject)
        };
        assert_eq!(verdict(&["a"]), (Decision::Allow, "a".to_owned()));
        assert_eq!(verdict(&["a", "b", "c"]), (Decision::Ask, "b".to_owned()));
        assert_eq!(verdict(&["a", "b", "d"]), (Decision::Deny, "d".to_owned()));
    }

    #[test]
    fn a_question_without_subjects_is_never_allowed() {
        let mut question = Question::new(Kind::SKILL, "x");
        question.subjects.clear();
        assert_eq!(Policy::new().evaluate(&question).decision, Decision::Ask);
        assert_eq!(Policy::new().evaluate(&question).rule, None);
        let deny = Policy::new().rules(RuleSource::User, [Rule::new("*", "*", Decision::Deny)]);
        assert_eq!(deny.evaluate(&question).decision, Decision::Deny);
    }
}
