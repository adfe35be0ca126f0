//! Rules in layers, and what they say about an act.

use std::sync::Arc;

use crate::rule::Subject;
use crate::{Decision, Kind, Question, RealPath, Rule, RuleSource};

/// Rules in layers. Pure: deciding reads nothing but the rules.
///
/// For each subject the last rule that matches wins, later layers standing after earlier ones. Without
/// a match the decision is [`Decision::Ask`].
///
/// ```
/// use prowess_permission::{Decision, Kind, RuleSource, Policy, Rule};
///
/// let policy = Policy::new().with(
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
    layers: [Arc<[Rule]>; RuleSource::ALL.len()],
}

impl Policy {
    /// The built-in defaults: skills may be loaded, and everything else is asked about.
    #[must_use]
    pub fn new() -> Self {
        Self::empty().with(RuleSource::Defaults, [Rule::new("skill", "*", Decision::Allow)])
    }

    /// No rules at all: everything is asked about.
    #[must_use]
    pub fn empty() -> Self {
        Self { layers: std::array::from_fn(|_| Arc::from([])) }
    }

    /// The policy with `rules` after those that `layer` has already.
    #[must_use]
    pub fn with(mut self, layer: RuleSource, rules: impl IntoIterator<Item = Rule>) -> Self {
        let place = &mut self.layers[layer.index()];
        *place = place.iter().cloned().chain(rules).collect();
        self
    }

    /// Replaces the rules of `layer`.
    pub fn set(&mut self, layer: RuleSource, rules: Vec<Rule>) {
        self.layers[layer.index()] = rules.into();
    }

    /// Whether both have the very same rules, with none replaced in between.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.layers.iter().zip(&other.layers).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// The rules of `layer`, in order.
    #[must_use]
    pub fn rules(&self, layer: RuleSource) -> &[Rule] {
        &self.layers[layer.index()]
    }

    /// What the rules say about one subject.
    #[must_use]
    pub fn decide(&self, kind: &Kind, subject: &str) -> Verdict {
        verdict(subject, self.last_match(kind, &Subject::new(subject, false)))
    }

    /// What the rules say about a request: the strictest decision over all its subjects, and the first
    /// subject that it is true of. A request without subjects is never allowed. A file is also held against the rules
    /// by the other names that it was reached by; none of these allows anything.
    #[must_use]
    pub fn evaluate(&self, request: &Question) -> Verdict {
        let strictest = request
            .subjects
            .iter()
            .map(|subject| (subject.as_str(), self.of_subject(request, subject)))
            .chain(request.place.iter().flat_map(|place| self.of_names(&request.kind, place)))
            .reduce(|so_far, next| if action(next.1) > action(so_far.1) { next } else { so_far });
        match strictest {
            _ if request.subjects.is_empty() => {
                let verdict = self.decide(&request.kind, "");
                let decision = verdict.decision.max(Decision::Ask);
                // A rule that allows is not why this is asked about.
                let rule = verdict.rule.filter(|(_, rule)| rule.action == decision);
                Verdict { decision, rule, ..verdict }
            }
            Some((subject, rule)) if request.each_time && action(rule) == Decision::Allow => {
                Verdict { decision: Decision::Ask, subject: subject.to_owned(), rule: None }
            }
            // A file that is denied is called what whoever wanted it called it.
            Some((subject, rule)) if action(rule) == Decision::Deny => {
                let own = request.place.as_ref().filter(|place| place.real() == subject);
                verdict(own.map_or(subject, RealPath::name), rule)
            }
            Some((subject, rule)) => verdict(subject, rule),
            None => verdict("", None),
        }
    }

    /// Whether rules alone allow one subject of a request, under every name that it was reached by.
    pub(crate) fn allows(&self, request: &Question, subject: &str) -> bool {
        let own = request.place.iter().filter(|place| place.real() == subject);
        let mut names = own.flat_map(|place| self.of_names(&request.kind, place));
        action(self.of_subject(request, subject)) == Decision::Allow
            && names.all(|(_, rule)| action(rule) == Decision::Allow)
    }

    fn of_subject(&self, request: &Question, subject: &str) -> Option<(RuleSource, &Rule)> {
        let ignores_case = request.place.as_ref().is_some_and(RealPath::ignores_case);
        self.last_match(&request.kind, &Subject::new(subject, ignores_case))
    }

    /// What is said about the other names of a file. Of those in a store of files only rules are asked that were written
    /// in code for such a store: what the names mean on this machine is another file.
    fn of_names<'a>(
        &'a self,
        kind: &'a Kind,
        place: &'a RealPath,
    ) -> impl Iterator<Item = (&'a str, Option<(RuleSource, &'a Rule)>)> {
        let spelled = place.spelled().into_iter().map(move |spelled| {
            (spelled, self.last_match(kind, &Subject::new(spelled, place.ignores_case())))
        });
        let inside = place.paths_inside().iter().filter_map(move |path| {
            let subject = Subject::new(path, place.ignores_case());
            let found = self.last_where(|rule| rule.is_of_store() && rule.applies_to(kind, &subject))?;
            Some((place.name(), Some(found)))
        });
        spelled.chain(inside)
    }

    /// The rule that decides. One that asks about certain files decides over one about everything that allows or asks.
    fn last_match(&self, kind: &Kind, subject: &Subject<'_>) -> Option<(RuleSource, &Rule)> {
        let found = self.last_where(|rule| rule.applies_to(kind, subject));
        let is_weak =
            found.is_none_or(|(_, rule)| rule.action != Decision::Deny && rule.is_about_everything());
        if !is_weak || !kind.is_of_paths() {
            return found;
        }
        self.last_where(|rule| rule.is_guard() && rule.applies_to(kind, subject)).or(found)
    }

    fn last_where(&self, is_meant: impl Fn(&Rule) -> bool) -> Option<(RuleSource, &Rule)> {
        RuleSource::ALL.into_iter().rev().find_map(|layer| {
            let rule = self.rules(layer).iter().rev().find(|rule| is_meant(rule))?;
            Some((layer, rule))
        })
    }
}

fn action(rule: Option<(RuleSource, &Rule)>) -> Decision {
    rule.map_or(Decision::Ask, |(_, rule)| rule.action)
}

fn verdict(subject: &str, rule: Option<(RuleSource, &Rule)>) -> Verdict {
    let decision = action(rule);
    Verdict { decision, subject: subject.to_owned(), rule: rule.map(|(layer, rule)| (layer, rule.clone())) }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// What was decided, about what, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is to happen.
    pub decision: Decision,
    /// The subject that decided it: of several, the first with the strictest decision.
    pub subject: String,
    /// The rule that won, and its layer; `None` when no rule matched.
    pub rule: Option<(RuleSource, Rule)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, action: Decision) -> Rule {
        Rule::new("run", pattern, action)
    }

    #[test]
    fn the_last_match_wins_across_and_inside_layers() {
        let policy = Policy::empty()
            .with(RuleSource::Session, [rule("a", Decision::Allow)])
            .with(RuleSource::User, [rule("*", Decision::Deny), rule("b", Decision::Ask)]);
        assert_eq!(policy.decide(&Kind::RUN, "a").decision, Decision::Allow);
        assert_eq!(policy.decide(&Kind::RUN, "b").decision, Decision::Ask);
        assert_eq!(policy.decide(&Kind::RUN, "c").rule, Some((RuleSource::User, rule("*", Decision::Deny))));
    }

    #[test]
    fn the_strictest_subject_decides_a_request() {
        let policy =
            Policy::empty().with(RuleSource::User, [rule("a", Decision::Allow), rule("d", Decision::Deny)]);
        let verdict = |subjects: &[&str]| {
            let first = Question::new(Kind::RUN, subjects[0]);
            let request = subjects[1..].iter().fold(first, |request, subject| request.and(*subject));
            let verdict = policy.evaluate(&request);
            (verdict.decision, verdict.subject)
        };
        assert_eq!(verdict(&["a"]), (Decision::Allow, "a".to_owned()));
        assert_eq!(verdict(&["a", "b", "c"]), (Decision::Ask, "b".to_owned()));
        assert_eq!(verdict(&["a", "b", "d"]), (Decision::Deny, "d".to_owned()));
    }

    #[test]
    fn a_request_without_subjects_is_never_allowed() {
        let mut request = Question::new(Kind::SKILL, "x");
        request.subjects.clear();
        assert_eq!(Policy::new().evaluate(&request).decision, Decision::Ask);
        assert_eq!(Policy::new().evaluate(&request).rule, None);
        let deny = Policy::new().with(RuleSource::User, [Rule::new("*", "*", Decision::Deny)]);
        assert_eq!(deny.evaluate(&request).decision, Decision::Deny);
    }
}
