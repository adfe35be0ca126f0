//! Each dialect's prompt, tools and answers, complete.

use prowess_skills::dialect::MAX_ENUM_NAMES;
use prowess_skills::{Capabilities, Dialect, SkillSession, SkillToolKind};
use serde_json::{Value, json};

use crate::library::{Library, sorted};

fn library() -> Library {
    Library::new()
        .web_research()
        .skill("deploy", "argument-hint: \"[env]\"\nlicense: MIT\n", "Ship to $0.")
        .file("deploy/CHECKLIST.md", "- Tell the team\n")
}

/// A conversation as an agent has it: the prompt, the tools, the calls and their answers.
async fn transcript(library: &Library, dialect: Dialect, calls: &[(&str, Value)]) -> String {
    let session = library.session_in(dialect).await;
    let mut text = String::new();
    for tool in session.tools().iter() {
        let schema = serde_json::to_string_pretty(&sorted(&tool.parameters)).unwrap();
        text.push_str(&format!("=== tool {}\n{}\n{schema}\n\n", tool.name, tool.description));
    }
    text.push_str(&format!("=== prompt\n{}\n\n", session.prompt().text));
    for (tool, arguments) in calls {
        let reply = session.call(tool, arguments.clone()).await;
        let kind = if reply.is_error { "error" } else { "answer" };
        text.push_str(&format!(
            "=== call {tool} {}\n--- {kind}, {} changes\n{}\n\n",
            sorted(arguments),
            reply.deltas.len(),
            reply.text
        ));
    }
    text.push_str(&format!(
        "=== prompt\n{}\n\n=== loaded section\n{}\n",
        session.prompt().text,
        session.loaded_section().await.text
    ));
    let keys: Vec<String> =
        session.state().keys().iter().map(|(key, value)| format!("{key} = {value}")).collect();
    text.push_str(&format!("=== state keys\n{}\n", keys.join("\n")));
    library.told(&text)
}

#[tokio::test]
async fn deepagents() {
    let calls = [
        ("load_skill", json!({"skill_name": "web-research"})),
        ("load_skill", json!({"skill_name": "web-research"})),
        ("load_skill", json!({"skill_name": "deploy", "args": "staging"})),
        ("unload_skill", json!({"skill_name": "web-research"})),
        ("unload_skill", json!({"skill_name": "web-research"})),
        ("load_skill", json!({"skill": "deploy"})),
        ("load_skill", json!(null)),
        ("skill", json!({"name": "deploy"})),
    ];
    insta::assert_snapshot!(transcript(&library(), Dialect::DeepAgents, &calls).await);
}

#[tokio::test]
async fn trpc() {
    let calls = [
        ("skill_list_docs", json!({"skill": "deploy"})),
        ("skill_load", json!({"skill": "deploy", "docs": ["CHECKLIST.md"]})),
        ("skill_load", json!({"skill": "nope"})),
        ("skill_load", json!({"skill": "web-research"})),
        ("skill_select_docs", json!({"skill": "web-research", "include_all_docs": true})),
        ("skill_select_docs", json!({"skill": "deploy", "mode": "clear"})),
        ("skill_select_docs", json!({"skill": "deploy", "mode": "wipe"})),
        ("skill_unload", json!({"skill": "deploy"})),
    ];
    insta::assert_snapshot!(transcript(&library(), Dialect::Trpc, &calls).await);
}

#[tokio::test]
async fn opencode() {
    let calls = [
        ("skill", json!({"name": "web-research"})),
        ("skill", json!({"name": "nope"})),
        ("skill_unload", json!({"name": "web-research"})),
        ("skill", json!({"name": 7})),
    ];
    insta::assert_snapshot!(transcript(&library(), Dialect::OpenCode, &calls).await);
}

#[tokio::test]
async fn a_session_has_one_name_for_one_act() {
    let library = library();
    let mut all = Vec::new();
    for dialect in [Dialect::DeepAgents, Dialect::Trpc, Dialect::OpenCode] {
        let session = library.session_in(dialect).await;
        let names: Vec<&str> = session.tools().iter().map(|tool| tool.name).collect();
        // Without anything to run commands there is no tool that does; what its origin lacks is there if it is wanted.
        let can = Capabilities::of(dialect);
        let expected: Vec<&str> = dialect
            .tool_names()
            .filter(|name| {
                let kind = Dialect::tool_kind(name).unwrap();
                let of_documents =
                    matches!(kind, SkillToolKind::ListDocuments | SkillToolKind::SelectDocuments);
                !kind.reports()
                    && !name.ends_with("_with_args")
                    && (can.documents || !of_documents)
                    && (can.search || kind != SkillToolKind::Search)
            })
            .collect();
        assert_eq!(names, expected);
        assert!(names.contains(&dialect.load_tools().load) && names.contains(&dialect.load_tools().unload));
        all.extend(names);
    }
    all.sort_unstable();
    assert_eq!(all.iter().filter(|name| **name == "skill_unload").count(), 2);
}

fn names_in_schema(session: &SkillSession) -> Option<usize> {
    let tools = session.tools();
    tools[0].parameters["properties"]["skill_name"]["enum"].as_array().map(Vec::len)
}

#[tokio::test]
async fn names_are_listed_in_the_schema_while_they_are_few() {
    let names: Vec<String> = (0..=MAX_ENUM_NAMES).map(|number| format!("s{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(names_in_schema(&Library::of(&names[1..]).session().await), Some(MAX_ENUM_NAMES));
    assert_eq!(names_in_schema(&Library::of(&names).session().await), None);
    assert_eq!(names_in_schema(&Library::new().session().await), None);
}

/// Whatever a model sends, it gets an answer and nothing breaks.
#[tokio::test]
async fn foolish_arguments_get_an_answer() {
    let library = library();
    for dialect in [Dialect::DeepAgents, Dialect::Trpc, Dialect::OpenCode] {
        let session = library.session_in(dialect).await;
        for tool in dialect.tool_names() {
            for arguments in [
                json!(null),
                json!(true),
                json!([]),
                json!("deploy"),
                json!({"skill_name": {"a": 1}, "skill": [], "name": null}),
                json!({"skill_name": "x".repeat(100_000), "extra": 1}),
                json!({"x".repeat(100_000): 1}),
                json!("x".repeat(100_000)),
                json!({"skill_name": "x".repeat(100_000), "skill": "x".repeat(100_000), "mode": "x".repeat(100_000)}),
                json!({"skill_name": "\u{0}\n\u{202e}", "skill": "", "name": "../../etc"}),
            ] {
                let reply = session.call(tool, arguments.clone()).await;
                assert!(reply.is_error && reply.deltas.is_empty(), "{tool} {arguments}: {}", reply.text);
                assert!(reply.text.len() < 2_000, "{tool}: {} bytes", reply.text.len());
            }
        }
        assert!(session.state().loaded().is_empty());
    }
}

#[test]
fn dialects_have_names() {
    for dialect in [Dialect::DeepAgents, Dialect::Trpc, Dialect::OpenCode] {
        assert_eq!(dialect.as_str().parse(), Ok(dialect));
    }
    assert!("python".parse::<Dialect>().unwrap_err().contains("deepagents, trpc or opencode"));
}
