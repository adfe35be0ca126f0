//! The tools of chat as a model reads them, in every request.

use serde_json::{Value, json};

use super::world;
use crate::model::{Answer, FakeModel};

/// What all tools together may take, in tokens. There is room up to 2,500 for the tools that come next.
const MOST: usize = 2_400;

/// The tools of the first request of a conversation.
fn tools() -> Vec<Value> {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    let output = world.output(&["chat", "Hello."]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let request = model.requests().remove(0);
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"].clone()).collect()
}

/// Its name, its description and its schema: what a provider makes tokens of.
fn read(tool: &Value) -> String {
    json!({"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]})
        .to_string()
}

#[test]
fn all_tools_together_take_few_tokens() {
    let tools = tools();
    let sizes: Vec<(String, usize)> = tools
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap().to_owned(), read(tool).chars().count()))
        .collect();
    let tokens = sizes.iter().map(|(_, size)| size).sum::<usize>().div_ceil(4);
    assert!(tokens <= MOST, "{tokens} tokens: {sizes:#?}");
}

#[test]
fn a_model_reads_this() {
    let tools = tools();
    let mut text = String::new();
    for tool in &tools {
        let schema = serde_json::to_string_pretty(&tool["parameters"]).unwrap();
        let (name, description) = (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap());
        text.push_str(&format!("=== {name}\n{description}\n{schema}\n\n"));
    }
    insta::assert_snapshot!(text);
    // Nothing in it is for people who write Rust.
    for words in ["::", "[`", "```", "uint", "Option<", "`Runs"] {
        assert!(!text.contains(words), "{words}");
    }
}
