//! The model without a network, over a whole turn.

use std::sync::Arc;

use prowess_agent::model::{PromptSection, ToolChoice, ToolDefinition};
use prowess_agent::{Message, ModelRequest};
use prowess_models::Offline;
use serde_json::{Value, json};

use crate::support::{answer, result};

const OVERVIEW: &str = "\
## Skills System

- **User skills**: `/home/u/.prowess/skills`

**Available Skills:**

- **csv-report**: Make a report with tables and totals from CSV files. (License: MIT)
  -> Use `load_skill(\"csv-report\")` to read full instructions
- **pdf-forms**: Read and fill forms in PDF documents.
  -> Use `load_skill(\"pdf-forms\")` to read full instructions
- **deploy**: Deploy forms and reports to production. (Manual only)

**How to Use Skills (Progressive Disclosure):**
";

const INSTRUCTIONS: &str =
    "<skill name=\"csv-report\" origin=\"user\" dir=\"/skills/csv-report\" nonce=\"0f\">
---
name: csv-report
---
# Report

```bash
python3 scripts/report.py <input.csv>
```

```bash
python3 scripts/report.py sample.csv
```
</skill nonce=\"0f\">


---
**Skill Resources:**

- [script] `/skills/csv-report/scripts/report.py`";

fn request(task: &str, load: (&str, &str), can_run: bool) -> ModelRequest {
    let mut request = ModelRequest::new([Message::user(task)]);
    request.system =
        vec![PromptSection { owner: "skills".to_owned(), text: OVERVIEW.to_owned(), is_stable: true }];
    let tool = |name: &str, parameter: &str| {
        let parameters = json!({"type": "object", "properties": {parameter: {"type": "string"}}});
        Arc::new(ToolDefinition::new(name, "", parameters))
    };
    request.tools = vec![tool("ls", "path"), tool(load.0, load.1)];
    if can_run {
        request.tools.push(tool("skill_run", "command"));
    }
    request
}

const DEEPAGENTS: (&str, &str) = ("load_skill", "skill_name");
const TRPC: (&str, &str) = ("skill_load", "skill");

/// Asks, and puts the answer into the conversation: the call that it makes, or what it says.
async fn step(request: &mut ModelRequest) -> Result<(String, String, Value), String> {
    let message = answer(&Offline, request.clone()).await.message;
    request.messages.push(Arc::new(message.clone()));
    match message.tool_calls().next() {
        Some(call) => Ok((call.id.to_string(), call.name.clone(), call.parsed().unwrap())),
        None => Err(message.text()),
    }
}

#[tokio::test]
async fn it_loads_runs_and_reports() {
    let mut request = request("Please make a table of totals from my CSV file", DEEPAGENTS, true);
    let (id, tool, arguments) = step(&mut request).await.unwrap();
    assert_eq!((tool.as_str(), arguments), ("load_skill", json!({"skill_name": "csv-report"})));
    request.messages.push(Arc::new(result(&id, &tool, INSTRUCTIONS)));

    let (id, tool, arguments) = step(&mut request).await.unwrap();
    let command = "python3 scripts/report.py sample.csv";
    assert_eq!((tool.as_str(), arguments), ("skill_run", json!({"skill": "csv-report", "command": command})));
    let file = json!({"name": "out/report.md", "content": "# Report\n", "size_bytes": 9});
    let report = json!({
        "stdout": "| total | 42 |\n", "stderr": "", "exit_code": 0, "timed_out": false, "output_files": [file],
    });
    request.messages.push(Arc::new(result(&id, &tool, &report.to_string())));

    insta::assert_snapshot!(step(&mut request).await.unwrap_err(), @r#"
    I am not a language model. I work offline: I look for the skill whose name and description share the most words with your message, load it, and run the first example in it that can be run as it stands.

    I loaded the skill `csv-report` and ran its first example:

    ```
    python3 scripts/report.py sample.csv
    ```

    It ended with exit code 0.

    It wrote:

    ```
    | total | 42 |
    ```

    There is the file `out/report.md`:

    ```
    # Report
    ```
    "#);

    // The next message begins anew; what is loaded stays.
    request.system[0].text = OVERVIEW.replace("**csv-report**:", "**csv-report** [Loaded]:");
    request.messages.push(Arc::new(Message::user("another csv report, please")));
    assert_eq!(step(&mut request).await.unwrap().1, "skill_run");
}

#[tokio::test]
async fn text_in_the_system_message() {
    let mut request = request("fill a form", TRPC, true);
    let (id, tool, arguments) = step(&mut request).await.unwrap();
    assert_eq!((tool.as_str(), arguments), ("skill_load", json!({"skill": "pdf-forms"})));
    request.messages.push(Arc::new(result(&id, &tool, "skill 'pdf-forms' loaded")));
    let text = "## Loaded Skills\n\n<skill name=\"pdf-forms\" nonce=\"1\">\nRun `python3 fill.py --demo`.\n</skill nonce=\"1\">";
    request.system.push(PromptSection {
        owner: "loaded".to_owned(),
        text: text.to_owned(),
        is_stable: false,
    });
    let (_, tool, arguments) = step(&mut request).await.unwrap();
    assert_eq!((tool.as_str(), &arguments["command"]), ("skill_run", &json!("python3 fill.py --demo")));
}

#[tokio::test]
async fn nothing_to_run_with() {
    let mut request = request("csv report", DEEPAGENTS, false);
    let (id, tool, _) = step(&mut request).await.unwrap();
    request.messages.push(Arc::new(result(&id, &tool, INSTRUCTIONS)));
    insta::assert_snapshot!(step(&mut request).await.unwrap_err(), @r#"
    I am not a language model. I work offline: I look for the skill whose name and description share the most words with your message, load it, and run the first example in it that can be run as it stands.

    I loaded the skill `csv-report`. Its first example is below; I have no tool to run it.

    ```
    python3 scripts/report.py sample.csv
    ```
    "#);
}

#[tokio::test]
async fn nothing_that_fits() {
    let mut request = request("What is the weather like?", DEEPAGENTS, true);
    insta::assert_snapshot!(step(&mut request).await.unwrap_err(), @r#"
    I am not a language model. I work offline: I look for the skill whose name and description share the most words with your message, load it, and run the first example in it that can be run as it stands.

    No skill shares a word with your message. There are:

    - `csv-report`
    - `pdf-forms`
    "#);
}

#[tokio::test]
async fn a_load_that_fails_and_a_run_that_fails() {
    let mut loading = request("csv report", DEEPAGENTS, true);
    let (id, tool, _) = step(&mut loading).await.unwrap();
    let mut failed = result(&id, &tool, "Error: not allowed");
    if let prowess_agent::message::Content::Tool(result) = &mut failed.content {
        result.is_error = true;
    }
    let mut running = loading.clone();
    loading.messages.push(Arc::new(failed.clone()));
    assert!(
        step(&mut loading)
            .await
            .unwrap_err()
            .contains("could not be loaded:\n\n```\nError: not allowed\n```")
    );

    running.messages.push(Arc::new(result(&id, &tool, INSTRUCTIONS)));
    let (id, tool, _) = step(&mut running).await.unwrap();
    if let prowess_agent::message::Content::Tool(result) = &mut failed.content {
        (result.call, result.name) = (id.as_str().into(), tool);
    }
    running.messages.push(Arc::new(failed));
    assert!(
        step(&mut running).await.unwrap_err().contains("It did not run:\n\n```\nError: not allowed\n```")
    );
}

#[tokio::test]
async fn who_may_call_nothing_calls_nothing() {
    let mut request = request("csv report", DEEPAGENTS, true);
    request.tool_choice = ToolChoice::None;
    assert!(step(&mut request).await.unwrap_err().contains("no tool to load it"));
    assert!(step(&mut ModelRequest::default()).await.unwrap_err().contains("There are no skills"));
}

/// The overview as it is rendered for the skills in `examples/`, and their own instructions.
#[tokio::test]
async fn every_example_skill_is_found_and_run() {
    let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/skills");
    for (task, skill, program) in [
        ("Write release notes for the next version", "changelog-writer", "changelog.py assets/commits.txt"),
        ("Is this CSV export clean?", "csv-report", "csv_profile.py assets/orders.csv"),
        ("Why is my config rejected by the schema?", "json-schema-check", "check_json.py --schema"),
        ("What went wrong in this log?", "log-triage", "triage.py assets/shop.log"),
        ("I need the action items of our meeting", "meeting-notes", "cp assets/notes-template.md"),
        ("The first ten Fibonacci numbers, please", "python-math", "fib.py 10"),
        ("What changed between these two drafts?", "text-diff-review", "review.sh -o out/review"),
    ] {
        let mut request = request(task, DEEPAGENTS, true);
        request.system[0].text = include_str!("recorded/overview.txt").to_owned();
        Arc::make_mut(&mut request.tools[2]).parameters =
            json!({"properties": {"output_files": {"type": "array"}}});
        let (id, tool, arguments) = step(&mut request).await.unwrap();
        assert_eq!(arguments, json!({"skill_name": skill}), "{task}");
        let text = std::fs::read_to_string(format!("{skills}/{skill}/SKILL.md")).unwrap();
        let framed = format!("<skill name=\"{skill}\" nonce=\"1\">\n{text}\n</skill nonce=\"1\">");
        request.messages.push(Arc::new(result(&id, &tool, &framed)));
        let (_, tool, arguments) = step(&mut request).await.unwrap();
        assert_eq!((tool.as_str(), &arguments["skill"]), ("skill_run", &json!(skill)));
        assert_eq!(arguments["output_files"], json!(["out/**"]));
        let command = arguments["command"].as_str().unwrap();
        assert!(command.contains(program), "{skill}: {command}");
    }
}
