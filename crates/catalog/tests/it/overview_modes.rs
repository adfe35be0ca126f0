//! The modes of skills in the overview: what is pinned, full, by name only or manual, in every form.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prowess_catalog::overview::{ManualSkills, OverviewBudget, PinnedRoom, SkillMode};
use prowess_catalog::{Catalog, OverviewOptions, RootKind, ScanOptions};

use crate::tree::{Tree, in_memory, manifest};

/// A description of about a hundred characters.
fn description(name: &str) -> String {
    format!(
        "Does everything that somebody could want to do with a {name}, and says what it did. Ends with {name}."
    )
}

/// Skills called `task-00` and so on.
fn tasks(number: usize) -> Catalog {
    let names: Vec<String> = (0..number).map(|at| format!("task-{at:02}")).collect();
    let all: Vec<(&str, String)> =
        names.iter().map(|name| (name.as_str(), manifest(name, &description(name)))).collect();
    in_memory(&all)
}

fn modes(modes: &[(&str, SkillMode)]) -> BTreeMap<String, SkillMode> {
    modes.iter().map(|(name, mode)| ((*name).to_owned(), *mode)).collect()
}

fn overview(catalog: &Catalog, tokens: usize, modes: &BTreeMap<String, SkillMode>) -> String {
    let mut options = OverviewOptions::default();
    options.modes = Some(modes);
    options.budget = Some(OverviewBudget::new(tokens, "search_skills"));
    let overview = catalog.view_all().overview(&options);
    assert!(overview.tokens <= tokens, "{} tokens of {tokens}:\n{}", overview.tokens, overview.text);
    overview.text
}

#[test]
fn a_pinned_skill_is_first_and_whole_in_every_form() {
    let catalog = tasks(40);
    let modes = modes(&[("task-33", SkillMode::Pinned)]);
    let whole = format!("- **task-33**: {}", description("task-33"));
    for (tokens, form) in [
        (4_000, "-> Use `load_skill"),
        (1_500, "\n- **task-00**: Does everything that somebody could want"),
        (800, "Descriptions are shortened"),
        (250, "no room for descriptions"),
        (100, "39 more skills: use `search_skills`"),
    ] {
        let text = overview(&catalog, tokens, &modes);
        assert!(text.starts_with(&whole), "{tokens}: {text}");
        assert!(text.contains(form), "{tokens}: {text}");
    }
}

#[test]
fn pinned_skills_that_exceed_the_budget_are_shortened_and_the_text_says_so() {
    let catalog = tasks(40);
    let all = catalog.view_all();
    let pinned: BTreeMap<String, SkillMode> =
        all.names().map(|name| (name.to_owned(), SkillMode::Pinned)).collect();
    let text = overview(&catalog, 900, &pinned);
    assert!(text.starts_with("- **task-00**: Does everything"), "{text}");
    assert!(text.contains("Descriptions are shortened: use `search_skills`"), "{text}");
    assert!(!text.contains("more skills"), "all are pinned: {text}");
    // Descriptions give way before skills do.
    let text = overview(&catalog, 200, &pinned);
    assert!(all.names().all(|name| text.contains(name)), "{text}");
    assert!(text.contains("There is no room for all descriptions: use `search_skills`"), "{text}");
    let mut options = OverviewOptions::default();
    options.modes = Some(&pinned);
    assert_eq!(all.pinned_room(&options), PinnedRoom::default(), "without a budget there is room for all");
    options.budget = Some(OverviewBudget::new(200, "search_skills"));
    let room = all.pinned_room(&options);
    assert!(room.by_name > 0 && room.left_out == 0, "{room:?}");
    let one = modes(&[("task-00", SkillMode::Pinned)]);
    options.modes = Some(&one);
    assert_eq!(all.pinned_room(&options), PinnedRoom::default());
}

#[test]
fn pinned_skills_without_room_for_their_names_are_counted_and_exact_names_come_first() {
    let catalog = tasks(90);
    let all = catalog.view_all();
    let pinned: BTreeMap<String, SkillMode> =
        all.names().map(|name| (name.to_owned(), SkillMode::Pinned)).collect();
    let mut options = OverviewOptions::default();
    options.modes = Some(&pinned);
    options.exact = ["task-77"].into();
    options.budget = Some(OverviewBudget::new(150, "search_skills"));
    let room = all.pinned_room(&options);
    let text = all.overview(&options).text;
    let (line, rest) = text.split_once('\n').unwrap();
    assert!(line.starts_with("- **task-77**: Does") && line.ends_with("Ends with task-77."), "{text}");
    let named = rest.matches("task-").count();
    assert_eq!((room.shortened, room.by_name, room.left_out), (0, named, 89 - named), "{text}");
    assert!(named > 10 && rest.contains(": task-00, task-01"), "{text}");
    assert!(text.contains(&format!("{} more skills: use `search_skills`", room.left_out)), "{text}");
}

#[test]
fn a_full_skill_gets_the_room_that_names_and_counts_leave() {
    let long = "Knows everything about the sea. ".repeat(25);
    let mut all: Vec<(String, String)> = (0..1_500)
        .map(|at| format!("help-with-something-{at:04}"))
        .map(|name| (name.clone(), manifest(&name, &description(&name))))
        .collect();
    for name in ["sea-a", "sea-b", "sea-c"] {
        all.push((name.to_owned(), manifest(name, &format!("{long}Ends with {name}."))));
    }
    let named: Vec<(&str, String)> = all.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let catalog = in_memory(&named);
    let modes = modes(&[("sea-a", SkillMode::Full), ("sea-b", SkillMode::Full)]);
    for (tokens, form) in
        [(12_000, "no room for descriptions"), (1_000, "1501 more skills: use `search_skills`")]
    {
        let text = overview(&catalog, tokens, &modes);
        assert!(text.contains(form), "{text}");
        assert!(text.contains("Ends with sea-a.") && text.contains("Ends with sea-b."), "{text}");
        assert!(!text.contains("Ends with sea-c.") && !text.contains("**help"), "{text}");
    }
    // There is room for one and a half: both are shortened, and say more than the shortest line.
    let text = overview(&catalog, 350, &modes);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("- **sea-")).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.len() > 400), "{text}");
}

#[test]
fn project_and_recent_skills_get_the_room_that_full_ones_leave() {
    let catalog = tasks(90);
    let modes = modes(&[("task-33", SkillMode::Full)]);
    let mut options = OverviewOptions::default();
    options.modes = Some(&modes);
    options.recent = vec!["task-50", "task-40"];
    options.budget = Some(OverviewBudget::new(320, "search_skills"));
    let text = catalog.view_all().overview(&options).text;
    assert!(text.starts_with(&format!("- **task-33**: {}\n", description("task-33"))), "{text}");
    assert!(text.contains("- **task-50**: Does") && text.contains("- **task-40**: Does"), "{text}");
    assert_eq!(text.matches("- **").count(), 3, "no other skill gets a line: {text}");
}

#[test]
fn a_full_skill_keeps_its_description_when_others_lose_theirs() {
    let modes = modes(&[("task-33", SkillMode::Full)]);
    for tokens in [800, 250] {
        let text = overview(&tasks(40), tokens, &modes);
        assert!(text.starts_with(&format!("- **task-33**: {}\n", description("task-33"))), "{text}");
        assert!(!text.contains("Ends with task-00"), "{text}");
    }
    // Unlike a pinned skill, it gives way if there is no room.
    let text = overview(&tasks(40), 60, &modes);
    assert!(text.contains("- **task-33**: Does everything that somebody could want"), "{text}");
    assert!(!text.contains("Ends with task-33"), "{text}");
}

#[test]
fn a_skill_by_name_has_no_description_in_any_form_and_the_text_says_how_to_find_it() {
    let modes = modes(&[("task-01", SkillMode::Name), ("task-02", SkillMode::Name)]);
    for tokens in [4_000, 1_500, 800] {
        let text = overview(&tasks(40), tokens, &modes);
        assert!(
            text.contains(
                "By name only (2): task-01, task-02. Use `search_skills` to find out what they do."
            ),
            "{text}"
        );
        assert!(!text.contains("**task-01**"), "{text}");
    }
    let text = overview(&tasks(40), 250, &modes);
    assert!(text.contains("task-39, task-01, task-02"), "{text}");
    let text = overview(&tasks(40), 100, &modes);
    assert!(text.starts_with("40 skills: use `search_skills`"), "{text}");
}

#[test]
fn too_many_names_are_counted() {
    let catalog = tasks(90);
    let mut by_name: BTreeMap<String, SkillMode> =
        catalog.view_all().names().map(|name| (name.to_owned(), SkillMode::Name)).collect();
    by_name.insert("task-07".to_owned(), SkillMode::Auto);
    let text = overview(&catalog, 200, &by_name);
    assert!(text.starts_with(&format!("- **task-07**: {}", description("task-07"))), "{text}");
    assert!(text.contains("89 more skills: use `search_skills`"), "{text}");
}

#[test]
fn without_a_budget_names_come_last_and_pinned_skills_first() {
    let modes = modes(&[("task-00", SkillMode::Name), ("task-02", SkillMode::Pinned)]);
    let mut options = OverviewOptions::default();
    options.modes = Some(&modes);
    insta::assert_snapshot!(tasks(3).view_all().overview(&options).text, @r#"
    - **task-02**: Does everything that somebody could want to do with a task-02, and says what it did. Ends with task-02.
      -> Use `load_skill("task-02")` to read full instructions
    - **task-01**: Does everything that somebody could want to do with a task-01, and says what it did. Ends with task-01.
      -> Use `load_skill("task-01")` to read full instructions

    By name only (1): task-00. Read the instructions of one to find out what it does. Use `load_skill("NAME")` to read the full instructions of a skill.
    "#);
    let compact = tasks(3).view_all().overview_compact_with(&options).text;
    assert!(compact.starts_with("- task-02: ") && compact.ends_with("\n- task-00"), "{compact}");
    let xml = tasks(3).view_all().overview_xml_with(&options).text;
    assert_eq!(xml.matches("<description>").count(), 2, "{xml}");
    assert_eq!(xml.matches("<name>").count(), 3, "{xml}");
}

#[test]
fn a_manual_skill_is_listed_only_while_it_is_loaded() {
    let modes = modes(&[("task-01", SkillMode::Manual)]);
    let catalog = tasks(3);
    let mut options = OverviewOptions::default();
    options.modes = Some(&modes);
    // This is about skills whose manifests say that they are manual.
    options.manual = ManualSkills::Marked;
    for text in [
        catalog.view_all().overview(&options).text,
        catalog.view_all().overview_xml_with(&options).text,
        catalog.view_all().overview_compact_with(&options).text,
    ] {
        assert!(!text.contains("task-01"), "{text}");
    }
    options.loaded = ["task-01"].into();
    let text = catalog.view_all().overview(&options).text;
    assert!(text.contains("- **task-01** [Loaded]: "), "{text}");
    assert!(!text.contains("load_skill(\"task-01\")"), "{text}");
}

#[test]
fn pinned_then_full_then_project_then_recent_then_the_rest() {
    let tree = Tree::in_memory();
    for name in ["ant", "bee", "cat", "dog", "eel"] {
        tree.write(&format!("user/{name}/SKILL.md"), manifest(name, &description(name)));
    }
    tree.write("project/zebra/SKILL.md", manifest("zebra", &description("zebra")));
    let roots = [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project)];
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    let modes = modes(&[("eel", SkillMode::Pinned), ("bee", SkillMode::Full)]);
    let mut options = OverviewOptions::default();
    options.modes = Some(&modes);
    options.recent = vec!["dog", "cat", "gone", "eel"];
    options.budget = Some(OverviewBudget::new(400, "search_skills"));
    let text = catalog.view_all().overview_compact_with(&options).text;
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("- ")?.split(':').next()).collect();
    assert_eq!(names, ["eel", "bee", "zebra", "dog", "cat", "ant"]);
}

/// A mode that a listed skill can have.
fn any_mode() -> impl Strategy<Value = SkillMode> {
    prop::sample::select(SkillMode::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every skill that is neither manual nor off is named, or the text says how to find it. Search finds it by its name.
    #[test]
    fn every_skill_is_in_the_overview_or_is_found(
        // No word of the overview itself begins with a q.
        skills in prop::collection::btree_map("q[a-z]{2,6}(-[a-z]{2,9}){0,2}", any_mode(), 1..60),
        length in 20usize..900,
        tokens in 120usize..3_000,
        recent in prop::collection::vec(0usize..60, 0..6),
    ) {
        let filler = "a thing to do ".repeat(length / 14 + 1);
        let named: Vec<(&str, String)> =
            skills.keys().map(|name| (name.as_str(), manifest(name, &filler[..length]))).collect();
        let catalog = in_memory(&named);
        let view = catalog.view(|entry| skills[entry.skill.name.as_str()] != SkillMode::Off);
        let names: Vec<&str> = skills.keys().map(String::as_str).collect();
        let mut options = OverviewOptions::default();
        options.modes = Some(&skills);
        options.recent = recent.iter().filter_map(|at| names.get(*at).copied()).collect();
        options.budget = Some(OverviewBudget::new(tokens, "search_skills"));
        let overview = view.overview(&options);
        prop_assert!(overview.tokens <= tokens, "{} tokens of {}: {}", overview.tokens, tokens, overview.text);
        let seen: Vec<&str> =
            names.iter().copied().filter(|name| skills[*name] > SkillMode::Manual).collect();
        let is_named = |name: &str| {
            let mut words = overview.text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
            words.any(|word| word == name)
        };
        if !seen.iter().all(|name| is_named(name)) {
            prop_assert!(overview.text.contains("skills: use `search_skills`"), "{}", overview.text);
        }
        for name in seen {
            let hits = view.search(name);
            prop_assert!(hits.iter().any(|hit| hit.entry.skill.name.as_str() == name), "{} is not found", name);
        }
        // The names of groups can be names of skills.
        let has_groups = overview.text.contains("By the first word");
        for (name, _) in skills.iter().filter(|(_, mode)| **mode <= SkillMode::Manual && !has_groups) {
            prop_assert!(!is_named(name), "{} in {}", name, overview.text);
        }
    }

    /// In every form: pinned skills are whole unless `pinned_room` says otherwise, no other skill has more than the shortest
    /// description before `full` ones are whole, and the budget holds.
    #[test]
    fn full_skills_come_before_others_in_every_form(
        skills in prop::collection::btree_map("q[a-z]{3,6}(-[a-z]{2,9}){0,2}", any_mode(), 1..80),
        length in 60usize..900,
        tokens in 90usize..4_000,
        recent in prop::collection::vec(0usize..80, 0..12),
    ) {
        let filler = "a thing to do ".repeat(length / 14 + 1);
        let manifests: Vec<(&str, String)> =
            skills.keys().map(|name| (name.as_str(), manifest(name, &format!("{}END", &filler[..length])))).collect();
        let catalog = in_memory(&manifests);
        let view = catalog.view(|entry| skills[entry.skill.name.as_str()] != SkillMode::Off);
        let names: Vec<&str> = skills.keys().map(String::as_str).collect();
        let mut options = OverviewOptions::default();
        options.modes = Some(&skills);
        options.recent = recent.iter().filter_map(|at| names.get(*at).copied()).collect();
        options.budget = Some(OverviewBudget::new(tokens, "search_skills"));
        let (overview, room) = (view.overview(&options), view.pinned_room(&options));
        let text = &overview.text;
        prop_assert!(overview.tokens <= tokens, "{} tokens of {}: {}", overview.tokens, tokens, text);
        let description = |name: &str| {
            let start = format!("- **{name}**: ");
            text.lines().find_map(|line| line.strip_prefix(start.as_str()).map(str::to_owned))
        };
        let modes = &skills;
        let of = |mode| names.iter().copied().filter(move |name| modes[*name] == mode);
        let is_whole = |name: &str| description(name).is_some_and(|text| text.ends_with("END"));
        let pinned = of(SkillMode::Pinned).count();
        let whole = of(SkillMode::Pinned).filter(|name| is_whole(name)).count();
        prop_assert_eq!(whole, pinned - room.shortened - room.by_name - room.left_out, "{:?} {}", room, text);
        let lines = of(SkillMode::Pinned).filter(|name| description(name).is_some()).count();
        prop_assert_eq!(lines, whole + room.shortened, "{:?} {}", room, text);
        if !of(SkillMode::Full).all(is_whole) {
            for name in of(SkillMode::Auto) {
                let shown = description(name).map_or(0, |text| text.chars().count());
                prop_assert!(shown <= 41, "{} has {}: {}", name, shown, text);
            }
        }
        if whole < pinned {
            prop_assert!(names.iter().all(|name| skills[*name] == SkillMode::Pinned || description(name).is_none()), "{}", text);
        }
    }
}
