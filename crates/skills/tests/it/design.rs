//! The unit tests that the design notes name, one by one; docs/contributing/tests.md has the table.

use prowess_catalog::resource::ResourceKind;
use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
use prowess_skills::{AllowedTools, Dialect, Discovery, SessionOptions, SkillDelta};
use serde_json::{Value, json};

use crate::library::{CountedFiles, Library, loaded, session_in_backend};

fn kinds(session: &prowess_skills::SkillSession, name: &str) -> Vec<(String, ResourceKind)> {
    let state = session.state();
    let short = |path: &str| path.rsplit_once(&format!("/{name}/")).unwrap().1.to_owned();
    state.resources(name).iter().map(|found| (short(&found.path), found.kind)).collect()
}

/// A library with one skill that has a file of every kind.
fn every_kind() -> Library {
    Library::of(&["kit"])
        .file("kit/scripts/run.py", "")
        .file("kit/references/guide.md", "")
        .file("kit/assets/logo.svg", "")
}

#[tokio::test]
async fn discover_resources_standard_dirs() {
    let library = every_kind();
    let session = library.session().await;
    session.load("kit", None).await.unwrap();
    let expected = [
        ("assets/logo.svg", ResourceKind::Asset),
        ("references/guide.md", ResourceKind::Reference),
        ("scripts/run.py", ResourceKind::Script),
    ];
    assert_eq!(kinds(&session, "kit"), expected.map(|(path, kind)| (path.to_owned(), kind)));
    let state = session.state();
    let script = &state.resources("kit")[2];
    assert_eq!(script.path, library.join("kit/scripts/run.py").to_string_lossy());
    assert_eq!(script.skill_name, "kit");
}

#[tokio::test]
async fn discover_resources_empty_skill() {
    let library = Library::of(&["bare"]);
    let session = library.session().await;
    let answer = session.load("bare", None).await.unwrap();
    assert!(session.state().resources("bare").is_empty());
    assert!(!answer.text.contains("Skill Resources"));
}

const MANIFEST: &str = "---\nname: kit\ndescription: A kit.\n---\n";

#[tokio::test]
async fn discover_resources_backend_error() {
    let files = [("/skills/kit/SKILL.md", MANIFEST), ("/skills/kit/scripts/run.py", "")];
    let session = session_in_backend(&files, &["/skills/kit"]).await;
    let answer = session.load("kit", None).await.unwrap();
    assert!(session.state().resources("kit").is_empty());
    assert!(!answer.text.contains("Skill Resources"));
    assert_eq!(loaded(&session), ["kit"]);
}

/// A directory that cannot be listed is left out alone.
#[tokio::test]
async fn discover_resources_backend_error_in_one_directory() {
    let files = [
        ("/skills/kit/SKILL.md", MANIFEST),
        ("/skills/kit/scripts/run.py", ""),
        ("/skills/kit/assets/logo.svg", ""),
    ];
    let session = session_in_backend(&files, &["/skills/kit/scripts"]).await;
    session.load("kit", None).await.unwrap();
    assert_eq!(kinds(&session, "kit"), [("assets/logo.svg".to_owned(), ResourceKind::Asset)]);
}

#[tokio::test]
async fn discover_resources_non_standard_dirs_ignored() {
    let library = Library::of(&["kit"]).file("kit/temp/x.txt", "").file("kit/scripts/deep/y.py", "");
    let session = library.session().await;
    session.load("kit", None).await.unwrap();
    assert!(session.state().resources("kit").is_empty());
}

/// Deeper directories are an option.
#[tokio::test]
async fn discover_resources_deeper_when_told() {
    let library = Library::of(&["kit"]).file("kit/scripts/deep/y.py", "");
    let session = library.session_with(Dialect::DeepAgents, |options| options.resource_depth = 2).await;
    session.load("kit", None).await.unwrap();
    assert_eq!(kinds(&session, "kit"), [("scripts/deep/y.py".to_owned(), ResourceKind::Script)]);
}

#[tokio::test]
async fn discover_resources_root_level_files() {
    let library = Library::of(&["kit"]).file("kit/template.md", "");
    let session = library.session().await;
    session.load("kit", None).await.unwrap();
    assert_eq!(kinds(&session, "kit"), [("template.md".to_owned(), ResourceKind::Other)]);
}

fn saved(session: &prowess_skills::SkillSession) -> Value {
    serde_json::to_value(session.save()).unwrap()
}

#[tokio::test]
async fn before_agent_initializes_new_state() {
    let library = every_kind();
    let session = library.session().await;
    let state = saved(&session);
    assert_eq!(state["skills_metadata"][0]["name"], "kit");
    assert_eq!(state["skills_loaded"], json!([]));
    assert_eq!(state["skill_resources"], json!({}));
}

#[tokio::test]
async fn before_agent_initializes_new_state_eager() {
    let library = every_kind();
    let session =
        library.session_with(Dialect::DeepAgents, |options| options.discovery = Discovery::Eager).await;
    let state = saved(&session);
    assert_eq!(state["skills_loaded"], json!([]));
    assert_eq!(state["skill_resources"]["kit"].as_array().unwrap().len(), 3);
    assert_eq!(state["skill_resources"]["kit"][0]["type"], "asset");
}

#[tokio::test]
async fn before_agent_idempotent() {
    let library = every_kind();
    let session = library.session().await;
    session.load("kit", None).await.unwrap();
    let before = session.save();
    let refreshed = session.refresh(&library.catalog()).await;
    assert!(refreshed.stale.is_empty());
    let restored = library.builder().saved_state(before.clone()).build().await;
    assert_eq!(restored.save(), before);
    assert_eq!(session.save(), before);
}

#[tokio::test]
async fn load_skill_returns_command_with_content() {
    let library = Library::new().web_research();
    let session = library.session().await;
    let answer = session.load("web-research", None).await.unwrap();
    assert!(answer.text.contains("Search, then read."));
    assert!(answer.text.contains("**Skill Resources:**"));
    assert_eq!(answer.deltas.len(), 1);
}

#[tokio::test]
async fn load_skill_updates_skills_loaded() {
    let library = Library::new().web_research().skill("notes", "", "Note.");
    let session = library.session().await;
    session.load("web-research", None).await.unwrap();
    let answer = session.load("notes", None).await.unwrap();
    assert!(matches!(&answer.deltas[0], SkillDelta::Loaded { skill, .. } if skill.name == "notes"));
    assert_eq!(saved(&session)["skills_loaded"], json!(["web-research", "notes"]));
}

#[tokio::test]
async fn load_skill_updates_skill_resources() {
    let library = Library::new().web_research();
    let files = CountedFiles::shared();
    let session = library.builder().files(files.clone()).build().await;
    assert_eq!(CountedFiles::count(&files.listings), 0, "nothing is looked for before a load");
    let answer = session.load("web-research", None).await.unwrap();
    assert!(matches!(&answer.deltas[0], SkillDelta::Loaded { resources, .. } if resources.len() == 3));
    assert_eq!(CountedFiles::count(&files.listings), 1);
    assert_eq!(saved(&session)["skill_resources"]["web-research"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn load_skill_updates_skill_resources_eager() {
    let library = Library::new().web_research();
    let files = CountedFiles::shared();
    let mut options = SessionOptions::default();
    options.discovery = Discovery::Eager;
    let session = library.builder().files(files.clone()).options(options).build().await;
    assert_eq!(CountedFiles::count(&files.listings), 1);
    session.load("web-research", None).await.unwrap();
    assert_eq!(CountedFiles::count(&files.listings), 1, "what was found at the start is used");
    assert_eq!(session.state().resources("web-research").len(), 3);
    // One that was unloaded is looked at again.
    session.unload("web-research").unwrap();
    library.write("web-research/scripts/sort.py", "print()\n");
    session.load("web-research", None).await.unwrap();
    assert_eq!(CountedFiles::count(&files.listings), 2);
    assert_eq!(session.state().resources("web-research").len(), 4);
}

#[tokio::test]
async fn load_skill_not_found_returns_error() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let error = session.load("x", None).await.unwrap_err();
    assert_eq!(error.for_model(), "Error: Skill 'x' not found. Available skills: a, b");
    assert!(loaded(&session).is_empty());
}

#[tokio::test]
async fn load_skill_already_loaded_returns_message() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    let answer = session.load("a", None).await.unwrap();
    assert_eq!(answer.text, "Skill 'a' is already loaded. Its instructions are already active.");
    assert!(answer.deltas.is_empty());
    assert_eq!(loaded(&session), ["a"]);
}

#[tokio::test]
async fn load_skill_file_read_error() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    library.remove("a/SKILL.md");
    let error = session.load("a", None).await.unwrap_err();
    assert_eq!(
        library.told(&error.for_model()),
        "Error: Failed to read skill file at /skills/a/SKILL.md: No such file or directory (os error 2)"
    );
    assert!(loaded(&session).is_empty());
}

#[tokio::test]
async fn load_skill_file_size_exceeded() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    let head = "---\nname: a\ndescription: Large.\n---\n";
    library.write("a/SKILL.md", format!("{head}{}", "x".repeat(10_485_760)));
    let error = session.load("a", None).await.unwrap_err();
    assert_eq!(
        library.told(&error.for_model()),
        "Error: Skill file at /skills/a/SKILL.md exceeds maximum size (10485760 bytes)"
    );
    assert!(loaded(&session).is_empty());
}

#[tokio::test]
async fn load_skill_max_loaded_reached() {
    let library = Library::of(&["a", "b", "c"]);
    let session = library.session_of(2).await;
    session.load("b", None).await.unwrap();
    session.load("a", None).await.unwrap();
    let error = session.load("c", None).await.unwrap_err();
    assert!(error.to_string().contains("unload_skill"), "{error}");
    assert_eq!(loaded(&session), ["b", "a"]);
}

#[tokio::test]
async fn unload_skill_success() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    session.load("b", None).await.unwrap();
    let answer = session.unload("a").unwrap();
    assert_eq!(answer.deltas.len(), 1);
    assert_eq!(loaded(&session), ["b"]);
}

#[tokio::test]
async fn unload_skill_clears_resources() {
    let library = Library::new().web_research();
    let session = library.session().await;
    session.load("web-research", None).await.unwrap();
    session.unload("web-research").unwrap();
    assert!(session.state().all_resources().is_empty());
}

#[tokio::test]
async fn unload_skill_not_loaded_returns_error() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    let none = session.unload("a").unwrap_err();
    assert_eq!(
        none.for_model(),
        "Error: Skill 'a' is not currently loaded. Currently loaded skills: (none)."
    );
    session.load("b", None).await.unwrap();
    let other = session.unload("a").unwrap_err();
    assert_eq!(other.for_model(), "Error: Skill 'a' is not currently loaded. Currently loaded skills: b.");
}

#[tokio::test]
async fn unload_skill_then_reload() {
    let library = Library::new().web_research();
    let files = CountedFiles::shared();
    let session = library.builder().files(files.clone()).build().await;
    session.load("web-research", None).await.unwrap();
    session.unload("web-research").unwrap();
    library.write("web-research/scripts/third.py", "");
    let answer = session.load("web-research", None).await.unwrap();
    assert_eq!(CountedFiles::count(&files.listings), 2, "resources are looked for again");
    assert!(answer.text.contains("third.py"));
    assert_eq!(loaded(&session), ["web-research"]);
}

#[tokio::test]
async fn unload_skill_then_reload_eager() {
    let library = Library::new().web_research();
    let session =
        library.session_with(Dialect::DeepAgents, |options| options.discovery = Discovery::Eager).await;
    session.load("web-research", None).await.unwrap();
    session.unload("web-research").unwrap();
    library.write("web-research/scripts/third.py", "");
    assert!(session.load("web-research", None).await.unwrap().text.contains("third.py"));
}

fn call(name: &str) -> CheckedCall<'_> {
    CheckedCall::new(name)
}

async fn restricted(library: &Library) -> prowess_skills::SkillSession {
    library.session_with(Dialect::DeepAgents, |options| options.allowed_tools = AllowedTools::Restrict).await
}

#[tokio::test]
async fn allowed_tools_recommend_mode_passthrough() {
    let library = Library::new().web_research();
    let session = library.session().await;
    session.load("web-research", None).await.unwrap();
    assert_eq!(session.view().check_tool(call("write_file")), ToolVerdict::Pass);
}

#[tokio::test]
async fn allowed_tools_restrict_mode_allows_listed() {
    let library = Library::new().web_research();
    let session = restricted(&library).await;
    session.load("web-research", None).await.unwrap();
    assert_eq!(session.view().check_tool(call("search")), ToolVerdict::Pass);
}

#[tokio::test]
async fn allowed_tools_restrict_mode_blocks_unlisted() {
    let library = Library::new().web_research();
    let session = restricted(&library).await;
    session.load("web-research", None).await.unwrap();
    let ToolVerdict::Blocked { message } = session.view().check_tool(call("write_file")) else { panic!() };
    assert_eq!(
        message,
        "Tool 'write_file' is not in the allowed-tools list for the currently loaded skills. \
         Allowed tools: read_file, search. If you believe this tool is necessary, explain your reasoning."
    );
}

#[tokio::test]
async fn allowed_tools_whitelist_always_allowed() {
    let library = Library::new().web_research();
    let session = restricted(&library).await;
    session.load("web-research", None).await.unwrap();
    for tool in ["load_skill", "unload_skill", "write_todos", "read_file", "ls"] {
        assert_eq!(session.view().check_tool(call(tool)), ToolVerdict::Pass, "{tool}");
    }
}

#[tokio::test]
async fn allowed_tools_no_loaded_skills_passthrough() {
    let library = Library::new().web_research();
    let session = restricted(&library).await;
    assert_eq!(session.view().check_tool(call("write_file")), ToolVerdict::Pass);
}

#[tokio::test]
async fn allowed_tools_no_restrictions_defined_passthrough() {
    let library = Library::of(&["a"]);
    let session = restricted(&library).await;
    session.load("a", None).await.unwrap();
    assert_eq!(session.view().check_tool(call("write_file")), ToolVerdict::Pass);
}

#[tokio::test]
async fn format_skills_list_with_loaded_status() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("b", None).await.unwrap();
    let overview = session.view().overview().text;
    assert!(overview.contains("- **a**: Looks after a."), "{overview}");
    assert!(overview.contains("- **b** [Loaded]: Looks after b."), "{overview}");
}

#[tokio::test]
async fn format_skills_list_with_resources() {
    let library = Library::new().web_research();
    let session = library.session().await;
    assert!(!session.view().overview().text.contains("Resources"));
    session.load("web-research", None).await.unwrap();
    assert_eq!(
        session.view().overview().text,
        "- **web-research** [Loaded]: Research topics using web search\n  \
         -> Recommended tools: search, read_file\n  \
         -> Resources: 1 reference, 2 scripts"
    );
}

#[tokio::test]
async fn format_skills_list_with_resources_eager() {
    let library = Library::new().web_research();
    let session =
        library.session_with(Dialect::DeepAgents, |options| options.discovery = Discovery::Eager).await;
    assert_eq!(
        session.view().overview().text,
        "- **web-research**: Research topics using web search\n  \
         -> Recommended tools: search, read_file\n  \
         -> Resources: 1 reference, 2 scripts\n  \
         -> Use `load_skill(\"web-research\")` to read full instructions"
    );
}

#[tokio::test]
async fn format_skills_list_load_skill_guidance() {
    let library = Library::of(&["a", "b"]);
    let session = library.session().await;
    session.load("b", None).await.unwrap();
    let overview = session.view().overview().text;
    assert!(overview.contains("  -> Use `load_skill(\"a\")` to read full instructions"), "{overview}");
    assert!(!overview.contains("load_skill(\"b\")"), "{overview}");
}

#[tokio::test]
async fn v1_skills_work_without_modification() {
    let text = "---\nname: plain\ndescription: A skill of the first kind.\nlicense: MIT\n---\n\n# Plain\n";
    let library = Library::new().file("plain/SKILL.md", text);
    let session = library.session().await;
    let answer = session.load("plain", None).await.unwrap();
    assert!(answer.text.contains(text), "the whole file is given: {}", answer.text);
}

#[test]
fn default_policy_is_recommend() {
    assert_eq!(AllowedTools::default(), AllowedTools::Recommend);
    assert_eq!(SessionOptions::default().allowed_tools, AllowedTools::Recommend);
}

/// Whoever reads the file by another way changes nothing here, and can load the skill afterwards.
#[tokio::test]
async fn read_file_still_works_for_skills() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    let entry = session.engine().catalog_view().get("a").unwrap().clone();
    assert!(std::fs::read_to_string(entry.skill.location.as_str()).unwrap().contains("Do it."));
    assert!(loaded(&session).is_empty());
    assert_eq!(session.load("a", None).await.unwrap().deltas.len(), 1);
}

#[test]
fn the_table_of_these_tests_is_true() {
    let table = include_str!("../../../../docs/contributing/tests.md");
    let here = include_str!("design.rs");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `test_"))
        .map(|line| line.split('`').skip(1).step_by(2).collect())
        .collect();
    assert_eq!(rows.len(), 31);
    for row in rows {
        assert_eq!(row[0].strip_prefix("test_"), Some(row[1]));
        assert!(row[1..].iter().all(|name| here.contains(&format!("fn {name}("))), "{row:?}");
    }
}
