//! What holds for every input.

use proptest::prelude::*;
use prowess_permission::{Decision, Kind, Pattern, PermissionConfig, Policy, Rule, RuleSource};

/// What a pattern means, in as few words as possible.
fn reference(pattern: &[char], subject: &[char]) -> bool {
    match pattern {
        [] => subject.is_empty(),
        [' ', '*', more @ ..] if subject.is_empty() && more.iter().all(|c| *c == '*') => true,
        ['*', rest @ ..] => (0..=subject.len()).any(|taken| reference(rest, &subject[taken..])),
        ['?', rest @ ..] => !subject.is_empty() && reference(rest, &subject[1..]),
        ['\\', c @ ('*' | '?' | '\\'), rest @ ..] | [c, rest @ ..] => {
            subject.first() == Some(c) && reference(rest, &subject[1..])
        }
    }
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Decision::Allow), Just(Decision::Ask), Just(Decision::Deny)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matching_agrees_with_the_reference(pattern in r"[ab*?\\ é\n]{0,8}", subject in r"[ab*?\\ é\n]{0,8}") {
        let chars: Vec<char> = pattern.chars().collect();
        let subject_chars: Vec<char> = subject.chars().collect();
        prop_assert_eq!(
            Pattern::parse(&pattern).unwrap().matches(&subject),
            reference(&chars, &subject_chars)
        );
    }

    #[test]
    fn a_literal_matches_itself_alone(text in any::<String>(), other in any::<String>()) {
        let literal = Pattern::literal(&text);
        prop_assert!(literal.matches(&text));
        prop_assert_eq!(literal.matches(&other), text == other);
        prop_assert_eq!(Pattern::parse(literal.as_str()).unwrap(), literal);
    }

    #[test]
    fn a_literal_is_not_its_neighbours(text in r"[ab*?\\ ]{0,6}", other in r"[ab*?\\ ]{0,6}") {
        prop_assert_eq!(Pattern::literal(&text).matches(&other), text == other);
    }

    #[test]
    fn the_last_match_wins(
        rules in prop::collection::vec((0..6usize, "[rs*]{1,2}", "[ab*]{0,3}", decision()), 0..20),
        subject in "[ab]{0,3}",
    ) {
        let sources =
            [RuleSource::Defaults, RuleSource::BuiltInAgent, RuleSource::User, RuleSource::Project, RuleSource::Agent, RuleSource::Session];
        let mut policy = Policy::empty();
        for (source, kind, pattern, action) in &rules {
            policy = policy.rules(sources[*source], [Rule::new(kind, pattern, *action)]);
        }
        let mut sorted = rules.clone();
        sorted.sort_by_key(|(source, ..)| *source);
        let kind = Kind::parse("r").unwrap();
        let expected = sorted.iter().fold(Decision::Ask, |so_far, (_, kind, pattern, action)| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let applies = reference(&chars(kind), &['r']) && reference(&chars(pattern), &chars(&subject));
            if applies { *action } else { so_far }
        });
        prop_assert_eq!(policy.decide(&kind, &subject).decision, expected);
    }

    #[test]
    fn a_rule_survives_being_written_as_toml(
        kind in "[a-z0-9_.-]{1,20}", pattern in any::<String>(), action in decision(),
    ) {
        let rule = Rule::new(&kind, &pattern, action);
        let config = PermissionConfig::parse(&rule.toml(), "x.toml").unwrap();
        prop_assert_eq!(config.rules, [rule]);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = PermissionConfig::parse(&text, "x.toml");
        let _ = PermissionConfig::parse(&format!("[permission.run]\n{text}"), "x.toml");
    }
}
