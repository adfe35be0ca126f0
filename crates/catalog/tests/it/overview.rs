//! What a model is told of every skill, whole.

use std::collections::BTreeMap;

use prowess_catalog::overview::{Activation, ManualSkills, Rendered};
use prowess_catalog::resource::{ResourceCounts, ResourceKind};
use prowess_catalog::section::SectionTemplate;
use prowess_catalog::{Catalog, OverviewOptions, RootKind, ScanOptions, SkillEntry, estimate_tokens};

use crate::tree::{Tree, in_memory, manifest};

fn document(fields: &str) -> String {
    format!("---\n{fields}---\nFollow the steps.\n")
}

/// Skills with everything that an overview shows.
fn harbour() -> Catalog {
    in_memory(&[
        (
            "tide-tables",
            document(
                "name: tide-tables\ndescription: Looks up tides. Use when someone sails.\nlicense: MIT\n\
                 compatibility: Needs the network\nallowed-tools: Read Bash(curl:*)\n",
            ),
        ),
        (
            "knots",
            document("name: knots\ndescription: Ties knots.\nwhen_to_use: Use when rope is at hand.\n"),
        ),
        ("chart", document("name: chart\ndescription: Draws a chart.\nargument-hint: \"[from] [to]\"\n")),
        ("anchor", document("name: anchor\ndescription: Drops it.\ndisable-model-invocation: true\n")),
        ("log-book", document("name: log-book\ndescription: Keeps the log.\nlicense: Apache-2.0\n")),
    ])
}

fn counts(pairs: &[(ResourceKind, usize)]) -> ResourceCounts {
    ResourceCounts(pairs.iter().copied().collect::<BTreeMap<_, _>>())
}

/// What is known of the loaded skills' files.
fn files(entry: &SkillEntry) -> Option<ResourceCounts> {
    match entry.skill.name.as_str() {
        "tide-tables" => Some(counts(&[(ResourceKind::Script, 2), (ResourceKind::Reference, 1)])),
        "log-book" => Some(counts(&[])),
        _ => None,
    }
}

fn with(change: impl FnOnce(&mut OverviewOptions<'static>)) -> OverviewOptions<'static> {
    let mut options = OverviewOptions::default();
    change(&mut options);
    options
}

#[test]
fn every_skill_is_listed_with_what_applies_to_it() {
    let options = with(|options| options.loaded = ["tide-tables", "log-book"].into());
    insta::assert_snapshot!(harbour().view_all().overview_with(&options, &files).text, @r#"
    - **chart**: Draws a chart.
      -> Use `load_skill("chart", args="[from] [to]")` to read full instructions
    - **knots**: Ties knots. Use when rope is at hand.
      -> Use `load_skill("knots")` to read full instructions
    - **log-book** [Loaded]: Keeps the log. (License: Apache-2.0)
    - **tide-tables** [Loaded]: Looks up tides. Use when someone sails. (License: MIT, Compatibility: Needs the network)
      -> Recommended tools: Read, Bash(curl:*)
      -> Resources: 1 reference, 2 scripts
    "#);
}

#[test]
fn manual_skills_are_hidden_or_marked() {
    let view = harbour().view(|entry| matches!(entry.skill.name.as_str(), "anchor" | "knots"));
    insta::assert_snapshot!(view.overview(&with(|_| {})).text, @r#"
    - **knots**: Ties knots. Use when rope is at hand.
      -> Use `load_skill("knots")` to read full instructions
    "#);
    let marked = with(|options| options.manual = ManualSkills::Marked);
    insta::assert_snapshot!(view.overview(&marked).text, @r#"
    - **anchor**: Drops it. (Manual only)
    - **knots**: Ties knots. Use when rope is at hand.
      -> Use `load_skill("knots")` to read full instructions
    "#);
}

#[test]
fn a_client_without_a_tool_sends_its_model_to_the_file() {
    let read_file = with(|options| options.activation = Activation::ReadFile);
    insta::assert_snapshot!(harbour().view_all().overview(&read_file).text, @r#"
    - **chart**: Draws a chart.
      -> Read `/skills/chart/SKILL.md` for full instructions
    - **knots**: Ties knots. Use when rope is at hand.
      -> Read `/skills/knots/SKILL.md` for full instructions
    - **log-book**: Keeps the log. (License: Apache-2.0)
      -> Read `/skills/log-book/SKILL.md` for full instructions
    - **tide-tables**: Looks up tides. Use when someone sails. (License: MIT, Compatibility: Needs the network)
      -> Recommended tools: Read, Bash(curl:*)
      -> Read `/skills/tide-tables/SKILL.md` for full instructions
    "#);
    let named = with(|options| options.activation = Activation::Tool("skill"));
    let view = harbour().view(|entry| entry.skill.name.as_str() == "chart");
    insta::assert_snapshot!(view.overview(&named).text, @r#"
    - **chart**: Draws a chart.
      -> Use `skill("chart", args="[from] [to]")` to read full instructions
    "#);
}

#[test]
fn the_compact_and_the_xml_form_have_the_same_skills() {
    let view = harbour().view_all();
    insta::assert_snapshot!(view.overview_compact().text, @r#"
    - chart: Draws a chart.
    - knots: Ties knots. Use when rope is at hand.
    - log-book: Keeps the log.
    - tide-tables: Looks up tides. Use when someone sails.
    "#);
    let two = harbour().view(|entry| matches!(entry.skill.name.as_str(), "knots" | "chart" | "anchor"));
    insta::assert_snapshot!(two.overview_xml().text, @r#"
    <available_skills>
    <skill>
    <name>
    chart
    </name>
    <description>
    Draws a chart.
    </description>
    <location>
    /skills/chart/SKILL.md
    </location>
    </skill>
    <skill>
    <name>
    knots
    </name>
    <description>
    Ties knots. Use when rope is at hand.
    </description>
    <location>
    /skills/knots/SKILL.md
    </location>
    </skill>
    </available_skills>
    "#);
}

#[test]
fn no_skills_name_the_places_to_make_some() {
    let tree = Tree::new().directory("user").directory("project");
    let roots = [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project)];
    let shown = |roots, options| {
        let view = Catalog::discover(roots, &ScanOptions::default()).view_all();
        assert_eq!(view.overview_xml(), Rendered { text: String::new(), tokens: 0 });
        view.overview(&options).text.replace(tree.path().to_str().unwrap(), "/home/me")
    };
    assert_eq!(
        shown(&roots[..1], with(|_| {})),
        "(No skills available yet. You can create skills in /home/me/user)"
    );
    assert_eq!(
        shown(&roots, with(|_| {})),
        "(No skills available yet. You can create skills in /home/me/user or /home/me/project)"
    );
    assert_eq!(
        shown(&roots, with(|options| options.create_in = vec![".prowess/skills".into()])),
        "(No skills available yet. You can create skills in .prowess/skills)"
    );
    assert_eq!(shown(&[], with(|_| {})), "(No skills available yet.)");
}

#[test]
fn the_section_stands_around_locations_and_list() {
    let tree = Tree::new()
        .skill("user/greet")
        .file("project/tides/SKILL.md", manifest("tides", "Looks up tides. Use when someone sails."));
    let mut roots = [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project)];
    roots[0].label = "User".into();
    roots[1].label = "Project".into();
    let view = Catalog::discover(&roots, &ScanOptions::default()).view_all();
    let list = view.overview(&with(|options| options.loaded = ["greet"].into()));
    let section = SectionTemplate::default().render(&view.locations(), &list.text);
    assert!(section.text.starts_with("\n\n## Skills System\n"));
    assert_eq!(section.tokens, estimate_tokens(&section.text));
    insta::assert_snapshot!(section.text.trim().replace(tree.path().to_str().unwrap(), "/home/me"), @r#"
    ## Skills System

    You have access to a skills library that provides specialized capabilities and domain knowledge.

    - **User skills**: `/home/me/user`
    - **Project skills**: `/home/me/project`

    **Available Skills:**

    - **greet** [Loaded]: Looks after greet. Use it when asked.
    - **tides**: Looks up tides. Use when someone sails.
      -> Use `load_skill("tides")` to read full instructions

    **How to Use Skills (Progressive Disclosure):**

    Skills follow a **progressive disclosure** pattern - you see their name and description above, but only read full instructions when needed:

    1. **Recognize when a skill applies**: Check if the user's task matches a skill's description
    2. **Load the skill**: Use `load_skill("skill-name")` to read full instructions and discover resources
    3. **Follow the skill's instructions**: The loaded content contains step-by-step workflows, best practices, and examples
    4. **Access supporting files**: Use the resource paths shown in the loaded skill output with `read_file`
    5. **Unload when done**: Use `unload_skill("skill-name")` to free up a loading slot when a skill is no longer needed

    **When to Use Skills:**
    - User's request matches a skill's domain
    - You need specialized knowledge or structured workflows
    - A skill provides proven patterns for complex tasks

    Remember: Skills make you more capable and consistent. When in doubt, check if a skill exists for the task!
    "#);
}

#[test]
fn tokens_are_a_quarter_of_the_characters() {
    let rendered = harbour().view_all().overview(&with(|_| {}));
    assert_eq!(rendered.tokens, rendered.text.chars().count().div_ceil(4));
    assert_eq!(Rendered::from(String::from("éé")).tokens, 1);
}

#[test]
fn the_order_is_that_of_the_names_whatever_is_loaded() {
    let names = |options: &OverviewOptions<'_>| -> Vec<String> {
        let text = harbour().view_all().overview(options).text;
        text.split("- **").skip(1).map(|rest| rest.split("**").next().unwrap().to_owned()).collect()
    };
    let all = names(&with(|_| {}));
    assert_eq!(all, ["chart", "knots", "log-book", "tide-tables"]);
    assert_eq!(names(&with(|options| options.loaded = ["tide-tables"].into())), all);
}
