//! What a model reads of loading and unloading, byte for byte.

use insta::assert_snapshot;
use prowess_catalog::overview::SkillMode;
use prowess_permission::{Decision, Pattern, Policy, Rule, RuleSource};
use prowess_skills::modes::SkillModes;
use prowess_skills::options::{Placement, UnloadedText};
use prowess_skills::{Budgets, Dialect, SessionOptions, SkillSession};

use crate::library::Library;

#[tokio::test]
async fn an_unknown_skill() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    assert_snapshot!(session.load("x", None).await.unwrap_err().for_model(), @"Error: Skill 'x' not found. Available skills: a, b");
    let empty = Library::new();
    let session = empty.session().await;
    assert_snapshot!(session.load("x", None).await.unwrap_err().for_model(), @"Error: Skill 'x' not found. Available skills: (none)");
}

#[tokio::test]
async fn a_loaded_skill() {
    let library = Library::of(&["x"]);
    let session = library.session().await;
    session.load("x", None).await.unwrap();
    assert_snapshot!(session.load("x", None).await.unwrap().text, @"Skill 'x' is already loaded. Its instructions are already active.");
}

#[tokio::test]
async fn too_many_skills() {
    let names: Vec<String> = (0..11).map(|number| format!("s{number:02}")).collect();
    let library = Library::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let session = library.session().await;
    for name in &names[..10] {
        session.load(name, None).await.unwrap();
    }
    assert_snapshot!(session.load("s10", None).await.unwrap_err().for_model(), @r#"Error: Cannot load skill 's10'. Maximum number of simultaneously loaded skills reached (10). Currently loaded: s00, s01, s02, s03, s04, s05, s06, s07, s08, s09. Use `unload_skill("skill-name")` to unload a skill you no longer need, then retry loading."#);
}

#[tokio::test]
async fn too_many_tokens() {
    let library = Library::of(&["a", "b"]).skill("huge", "", &"word ".repeat(2000));
    let session = library
        .session_with(Dialect::DeepAgents, |options| options.budgets = Budgets::new(10, Some(60)))
        .await;
    session.load("a", None).await.unwrap();
    let told = |error: prowess_skills::SkillError| {
        // How long the directory's name is does not matter here.
        let text = error.for_model();
        text.split(' ')
            .map(
                |word| {
                    if word.trim_matches(['(', ')', ',', '.']).parse::<u32>().is_ok() { "#" } else { word }
                },
            )
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_snapshot!(told(session.load("b", None).await.unwrap_err()), @r#"Error: Cannot load skill 'b'. It takes # tokens, and loaded skills may take # in all, of which # are in use. Currently loaded: a # Use `unload_skill("skill-name")` to unload a skill you no longer need, then retry loading."#);
    assert_snapshot!(told(session.load("huge", None).await.unwrap_err()), @"Error: Cannot load skill 'huge'. It takes # tokens, and loaded skills may take # in all: that is too much for this session, even if you unload everything.");
    assert_eq!(session.state().loaded().len(), 1);
}

#[tokio::test]
async fn a_gate_that_nobody_opens() {
    let library = Library::of(&["x"]);
    let policy = Policy::new().rules(RuleSource::User, [Rule::new("skill", "*", Decision::Ask)]);
    let session = library.session_under(policy).await;
    assert_snapshot!(session.load("x", None).await.unwrap_err().for_model(), @r#"Error: Cannot load skill 'x'. Permission for skill 'x' is needed, and nobody can be asked. To allow it, add at the end of [permission.skill]: "x" = "allow""#);
}

#[tokio::test]
async fn a_document_that_cannot_be_read() {
    let library = Library::of(&["gone", "large", "latin"]);
    let session = library.session().await;
    library.remove("gone/SKILL.md");
    let head = "---\nname: large\ndescription: Large.\n---\n";
    library.write("large/SKILL.md", format!("{head}{}", "x".repeat(10_485_760)));
    library.write("latin/SKILL.md", b"---\nname: latin\ndescription: caf\xe9\n---\n");
    let mut told = Vec::new();
    for name in ["gone", "large", "latin"] {
        told.push(library.told(&session.load(name, None).await.unwrap_err().for_model()));
    }
    assert_snapshot!(told.join("\n"), @r"
    Error: Failed to read skill file at /skills/gone/SKILL.md: No such file or directory (os error 2)
    Error: Skill file at /skills/large/SKILL.md exceeds maximum size (10485760 bytes)
    Error: Failed to decode skill file: invalid utf-8 sequence of 1 bytes from index 32
    ");
    assert!(session.state().loaded().is_empty());
}

#[tokio::test]
async fn a_skill_that_is_loaded_now() {
    let library = Library::new().web_research();
    let session = library.session().await;
    let answer = session.load("web-research", None).await.unwrap();
    assert_snapshot!("load_web_research", library.told(&answer.text));
}

#[tokio::test]
async fn many_resources_are_counted() {
    let library = (0..103).fold(Library::of(&["kit"]), |library, number| {
        library.file(&format!("kit/assets/{number:03}.txt"), "")
    });
    let session = library.session().await;
    let answer = library.told(&session.load("kit", None).await.unwrap().text);
    let end: Vec<&str> = answer.lines().rev().take(2).collect();
    assert_eq!(end, ["- and 3 more, which this list leaves out", "- [asset] `/skills/kit/assets/099.txt`"]);
}

#[tokio::test]
async fn a_skill_that_is_not_loaded() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    assert_snapshot!(session.unload("x").unwrap_err().for_model(), @"Error: Skill 'x' is not currently loaded. Currently loaded skills: (none).");
    session.load("a", None).await.unwrap();
    session.load("b", None).await.unwrap();
    assert_snapshot!(session.unload("x").unwrap_err().for_model(), @"Error: Skill 'x' is not currently loaded. Currently loaded skills: a, b.");
}

#[tokio::test]
async fn a_skill_that_was_unloaded() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    session.load("b", None).await.unwrap();
    assert_snapshot!(session.unload("a").unwrap().text, @"Skill 'a' has been unloaded. Currently loaded: 1/10 (9 slot(s) available). Note: The skill's instructions from the previous load_skill call are still in the conversation history but will no longer be marked as [Loaded] in the skills list.");

    let stubs =
        library.session_with(Dialect::DeepAgents, |options| options.unloaded_text = UnloadedText::Stub).await;
    stubs.load("a", None).await.unwrap();
    assert_snapshot!(stubs.unload("a").unwrap().text, @"Skill 'a' has been unloaded. Currently loaded: 0/10 (10 slot(s) available). Note: The skill's instructions from the previous load_skill call are removed from the conversation history.");

    let system = library
        .session_with(Dialect::DeepAgents, |options| options.placement = Placement::SystemMessage)
        .await;
    system.load("a", None).await.unwrap();
    assert_snapshot!(system.unload("a").unwrap().text, @"Skill 'a' has been unloaded. Currently loaded: 0/10 (10 slot(s) available). Note: The skill's instructions are no longer in the system message.");
}

#[tokio::test]
async fn the_order_of_the_checks() {
    let library = Library::of(&["a", "b", "denied"]);
    let deny = Rule::new("skill", "denied", Decision::Deny);
    let ask = Rule::new("skill", "b", Decision::Ask);
    let session = library.session_under(Policy::new().rules(RuleSource::User, [deny, ask])).await;
    // Unknown before everything: what is denied is not there.
    assert_snapshot!(session.load("denied", None).await.unwrap_err().for_model(), @"Error: Skill 'denied' not found. Available skills: a, b");

    // Loaded before the limit, the limit before the gate, the gate before the document.
    let library = Library::of(&["a", "b"]);
    let mut options = prowess_skills::SessionOptions::default();
    options.budgets = Budgets::new(1, None);
    let ask = Policy::new().rules(RuleSource::User, [Rule::new("skill", "b", Decision::Ask)]);
    let permissions = prowess_permission::Permissions::unattended(ask);
    let session = library.builder().options(options).permissions(permissions).build().await;
    session.load("a", None).await.unwrap();
    library.remove("b/SKILL.md");
    assert!(session.load("a", None).await.unwrap().text.contains("already loaded"));
    assert!(session.load("b", None).await.unwrap_err().to_string().contains("Maximum number"));
    session.unload("a").unwrap();
    assert!(session.load("b", None).await.unwrap_err().to_string().contains("nobody can be asked"));
    session.permissions().set(RuleSource::Session, vec![Rule::new("skill", "b", Decision::Allow)]);
    assert!(session.load("b", None).await.unwrap_err().to_string().contains("Failed to read"));
}

#[tokio::test]
async fn among_many_skills_an_unknown_name_brings_similar_ones_and_the_search_tool() {
    let mut names: Vec<String> = (0..60).map(|number| format!("help-{number:02}")).collect();
    names.extend(["terraform", "terraform-aws", "terrain", "hidden-terraform"].map(str::to_owned));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let library = Library::of(&names);
    let hidden = || SkillModes::default().set(Pattern::parse("hidden-*").unwrap(), SkillMode::Manual);
    let mut options = SessionOptions::default();
    options.modes = hidden();
    let without = SkillSession::builder(library.catalog()).options(options.clone()).build().await;
    options.capabilities.search = true;
    let session = SkillSession::builder(library.catalog()).options(options).build().await;
    assert_snapshot!(session.load("terrafrom", None).await.unwrap_err().for_model(), @"Error: Skill 'terrafrom' not found. Similar: `terraform`, `terraform-aws`, `terrain`. Use `search_skills` to find other skills.");
    assert_snapshot!(session.load("help", None).await.unwrap_err().for_model(), @"Error: Skill 'help' not found. Similar: `help-00`, `help-01`, `help-02`, `help-03`, `help-04`. Use `search_skills` to find other skills.");
    assert_snapshot!(session.load("zzz", None).await.unwrap_err().for_model(), @"Error: Skill 'zzz' not found. No skill has a similar name. Use `search_skills` to find other skills.");
    assert_snapshot!(without.load("terraform-gcp", None).await.unwrap_err().for_model(), @"Error: Skill 'terraform-gcp' not found. Similar: `terraform`, `terraform-aws`. There are 63 skills.");
    assert!(session.load(&"x".repeat(100_000), None).await.unwrap_err().for_model().len() < 400);
}
