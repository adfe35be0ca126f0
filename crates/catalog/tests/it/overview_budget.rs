//! The overview within a budget: the richest form that fits, and a way to every skill.

use proptest::prelude::*;
use prowess_catalog::overview::OverviewBudget;
use prowess_catalog::{Catalog, OverviewOptions, RootKind, ScanOptions};

use crate::tree::{Tree, in_memory, manifest};

const SUBJECTS: [&str; 6] = ["boat", "sail", "rope", "tide", "harbour", "chart"];
const TASKS: [&str; 4] = ["clean", "repair", "describe", "sell"];

/// Two dozen skills in a few groups.
fn fleet() -> Catalog {
    let all: Vec<(String, String)> = SUBJECTS
        .iter()
        .flat_map(|subject| TASKS.map(|task| (format!("{subject}-{task}"), subject, task)))
        .map(|(name, subject, task)| {
            let description = format!(
                "Helps to {task} a {subject}, step by step, with a list of what is needed. Use it when somebody wants to \
                 {task} a {subject}."
            );
            let text = manifest(&name, &description);
            (name, text)
        })
        .collect();
    let named: Vec<(&str, String)> = all.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    in_memory(&named)
}

fn within(catalog: &Catalog, tokens: usize, first: &[&str]) -> String {
    let mut options = OverviewOptions::default();
    options.recent = first.to_vec();
    options.budget = Some(OverviewBudget::new(tokens, "search_skills"));
    let overview = catalog.view_all().overview(&options);
    assert!(overview.tokens <= tokens, "{} tokens of {tokens}:\n{}", overview.tokens, overview.text);
    overview.text
}

#[test]
fn skills_that_fit_are_listed_in_full() {
    let full = fleet().view_all().overview(&OverviewOptions::default());
    assert_eq!(within(&fleet(), full.tokens, &[]), full.text);
}

#[test]
fn the_richest_form_that_fits_is_used() {
    let lines = |tokens, first: &[&str]| -> String {
        let text = within(&fleet(), tokens, first);
        let shown: Vec<&str> = text.lines().collect();
        // The beginning, and what is said about the rest.
        [&shown[..shown.len().min(2)], &["…"], &shown[shown.len().saturating_sub(2)..]].concat().join("\n")
    };
    insta::assert_snapshot!("one_line_each", lines(1_000, &[]));
    insta::assert_snapshot!("shortened_lines", lines(600, &[]));
    insta::assert_snapshot!("names", within(&fleet(), 180, &[]));
    insta::assert_snapshot!("counts", within(&fleet(), 110, &[]));
    // Those that were used recently come first.
    insta::assert_snapshot!("some_first_then_names", within(&fleet(), 220, &["tide-sell", "boat-clean"]));
    insta::assert_snapshot!("some_first_then_counts", within(&fleet(), 115, &["tide-sell", "boat-clean"]));
}

#[test]
fn skills_of_the_project_come_first() {
    let tree = Tree::in_memory()
        .file("project/zebra/SKILL.md", manifest("zebra", "Feeds the zebra of this project."));
    for number in 0..300 {
        let name = format!("help-{number}");
        tree.write(
            &format!("user/{name}/SKILL.md"),
            manifest(&name, "Helps with something that people do every day."),
        );
    }
    let roots = [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project)];
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    let text = within(&catalog, 200, &[]);
    insta::assert_snapshot!("project_first", text);
}

#[test]
fn a_description_over_the_limit_of_the_specification_is_cut() {
    let long = format!("Counts fish. {}", "More fish. ".repeat(5_000));
    let catalog = in_memory(&[("fish", manifest("fish", &long))]);
    let overview = catalog.view_all().overview(&OverviewOptions::default());
    assert!(overview.text.starts_with("- **fish**: Counts fish. More fish."), "{}", overview.text);
    assert!(overview.text.chars().count() < 1_200, "{} characters", overview.text.chars().count());
    assert!(overview.text.contains("…\n"), "{}", overview.text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the skills are called, the overview keeps to its budget, and no skill is lost without a word.
    #[test]
    fn no_budget_is_exceeded(
        names in prop::collection::btree_set("[a-z]{1,6}(-[a-z]{1,12}){0,3}", 1..120),
        description in "[a-zA-Zé <>*`]{20,400}",
        tokens in 120usize..6_000,
    ) {
        let named: Vec<(&str, String)> =
            names.iter().map(|name| (name.as_str(), manifest(name, &format!("A {description}")))).collect();
        let catalog = in_memory(&named);
        let text = within(&catalog, tokens, &[]);
        let all_are_named = catalog.view_all().names().all(|name| text.contains(name));
        let counted = format!("{} skills: use `search_skills`", catalog.entries().len());
        prop_assert!(all_are_named || text.contains(&counted), "{}", text);
    }
}
