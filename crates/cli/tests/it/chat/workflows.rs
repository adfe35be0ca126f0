//! Whole work flows in a chat: a model that uses only paths that it was shown.
//!
//! The tests with skills of strangers need `PROWESS_WILD_SKILLS`, a directory that has these skills. `make workflows` runs
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use super::*;

/// What a model was shown: every text of a request, except what the model wrote itself.
struct Shown(String);

impl Shown {
    fn of(request: &Value) -> Self {
        let messages = request["messages"].as_array().unwrap().iter();
        let said = messages.filter(|message| message["role"] != "assistant");
        let texts: Vec<String> = said.map(|message| text(&message["content"])).collect();
        Self(texts.join("\n"))
    }

    /// The directory of the skill that was loaded, as its frame names it.
    fn directory(&self) -> String {
        let frame = Regex::new(r#"<skill name="[^"]*" origin="[^"]*" dir="([^"]*)""#).unwrap();
        frame.captures_iter(&self.0).last().expect("a frame")[1].to_owned()
    }

    /// The path with this end that the model was shown last.
    fn path(&self, end: &str) -> String {
        let begin = if end.starts_with('/') { r#"(?:/[^\s"`<>:]*)?"# } else { r#"/[^\s"`<>:]*"# };
        let pattern = format!("{begin}{}(?:[^A-Za-z0-9_.-]|$)", regex::escape(end));
        let pattern = Regex::new(&pattern).unwrap();
        let is_after = |end: char| !end.is_alphanumeric() && !"_-.".contains(end);
        let found = pattern.find_iter(&self.0).map(|found| found.as_str().trim_end_matches(is_after));
        let mut found: Vec<&str> = found.collect();
        if found.contains(&end) {
            return end.to_owned();
        }
        let last =
            found.pop().unwrap_or_else(|| panic!("no path that ends with {end} was shown:\n{}", self.0));
        last.to_owned()
    }
}

/// A text, or the texts of the parts of a message.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| part["text"].as_str().unwrap_or_default()).collect(),
        _ => String::new(),
    }
}

/// A call that is made from what the model was shown.
fn from_shown(name: &'static str, arguments: impl Fn(&Shown) -> Value + Send + 'static) -> Answer {
    Answer::calls(move |request| vec![(name, arguments(&Shown::of(request)))])
}

fn load(skill: &str) -> Answer {
    Answer::call("skill_load", json!({"skill": skill}))
}

fn ls_project() -> Answer {
    // The system prompt names it.
    from_shown("ls", |shown| json!({"path": shown.path("/project")}))
}

/// The answer to the last tool call in a request.
fn answered(request: &Value) -> Value {
    let answer = text(&request["messages"].as_array().unwrap().last().unwrap()["content"]);
    serde_json::from_str(&answer).unwrap_or(Value::String(answer))
}

/// Who uses prowess.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Person {
    Root,
    Plain,
}

/// A world for work flows: its skills are those of a directory.
struct Flow {
    world: World,
    model: FakeModel,
    person: Person,
}

impl Flow {
    fn new(person: Person, skills: &[&str], answers: Vec<Answer>) -> Self {
        let model = FakeModel::start(answers);
        let world = world(&model);
        for skill in skills {
            let from = wild_skills().join(skill);
            let to = world.path("home/.claude/skills");
            std::fs::create_dir_all(&to).unwrap();
            assert!(Command::new("cp").args(["-rL"]).args([&from, &to]).status().unwrap().success());
        }
        Self { world, model, person }
    }

    /// The same as `prowess chat --yes PROMPT`, as the person. Returns what was shown to the person.
    fn chat(&self, args: &[&str]) -> String {
        let args = [&["chat", "--yes"], args].concat();
        let output = match self.person {
            Person::Root => self.world.command(&args).output().unwrap(),
            Person::Plain => as_plain_user(&self.world, &self.world.command(&args)).output().unwrap(),
        };
        let told = self.world.told(&output);
        assert!(output.status.success(), "{told}");
        told
    }

    fn project(&self, path: &str) -> String {
        std::fs::read_to_string(self.world.path("project").join(path)).unwrap()
    }

    /// Checks that the call of this number copied a file.
    fn has_copied(&self, number: usize) {
        let answer = self.answers()[number].to_string();
        assert!(answer.starts_with("\"Copied /work/out/"), "{answer}");
    }

    /// The answers to all tool calls, by request.
    fn answers(&self) -> Vec<Value> {
        self.model.requests().iter().skip(1).map(answered).collect()
    }
}

fn wild_skills() -> PathBuf {
    let place = std::env::var_os("PROWESS_WILD_SKILLS");
    let place = PathBuf::from(place.expect("PROWESS_WILD_SKILLS names a directory of skills"));
    assert!(place.join("skill-creator/SKILL.md").is_file(), "{} has no skill-creator", place.display());
    place
}

const PLAN: &str = r#"{"format_version": "1.2", "resource_changes": [{"address": "azurerm_lb.web", "type": "azurerm_lb",
"change": {"actions": ["update"], "before": {"frontend_ip_configuration": [{"name": "a"}, {"name": "b"}]},
"after": {"frontend_ip_configuration": [{"name": "b"}, {"name": "a"}]}}}]}"#;

/// The same in a container.
#[test]
#[ignore = "needs PROWESS_WILD_SKILLS and a container engine: make workflows"]
fn plan_is_analysed_in_a_container() {
    let given =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is missing: make workflows"));
    let (socket, image) = (given("PROWESS_TEST_ENGINE"), given("PROWESS_TEST_IMAGE"));
    let sandbox =
        format!("[sandbox]\nexecutor = \"container\"\nimage = \"{image}\"\nengine_socket = \"{socket}\"\n");
    analyse_plan(Person::Root, &sandbox);
}

fn plan_is_analysed(person: Person) {
    analyse_plan(person, "");
}

/// A script of a skill reads a file of the project.
fn analyse_plan(person: Person, settings: &str) {
    const SKILL: &str = "terraform-azurerm-set-diff-analyzer";
    let flow = Flow::new(
        person,
        &[SKILL],
        vec![
            load(SKILL),
            ls_project(),
            from_shown("skill_run", |shown| {
                let (script, plan) = (shown.path("scripts/analyze_plan.py"), shown.path("/plan.json"));
                json!({"skill": SKILL, "command": format!("python3 {script} {plan}")})
            }),
            Answer::text("Only the order changed."),
        ],
    );
    configure(&flow.world, &flow.model.url(), settings);
    flow.world.file("project/plan.json", PLAN);
    let told = flow.chat(&["Does this plan change anything?"]);
    let run = &flow.answers()[2];
    assert_eq!(run["exit_code"], 0, "{run}");
    assert!(run["stdout"].as_str().unwrap().contains("azurerm_lb.web"), "{run}");
    assert!(told.contains("Only the order changed."), "{told}");
}

/// A result is made from a template of the skill, and copied into the project.
fn diagram_is_put_into_the_project(person: Person) {
    const SKILL: &str = "excalidraw-diagram-generator";
    let flow = Flow::new(
        person,
        &[SKILL],
        vec![
            load(SKILL),
            // The instructions name `templates/`; the frame names the skill's directory.
            from_shown("ls", |shown| json!({"path": format!("{}/templates", shown.directory())})),
            from_shown("skill_run", |shown| {
                let (template, script) = (
                    shown.path("templates/flowchart-template.excalidraw"),
                    shown.path("scripts/add-arrow.py"),
                );
                let out = shown.path("/work/out");
                let command = format!(
                    "cp {template} {out}/flow.excalidraw && chmod u+w {out}/flow.excalidraw && \
                     python3 {script} {out}/flow.excalidraw 10 20 30 40"
                );
                json!({"skill": SKILL, "command": command, "output_files": ["out/*.excalidraw"]})
            }),
            from_shown("copy_file", |shown| {
                let to = format!("{}/docs/flow.excalidraw", shown.path("/project"));
                json!({"from": shown.path("out/flow.excalidraw"), "to": to})
            }),
            Answer::text("Drawn."),
        ],
    );
    let told = flow.chat(&["Draw our flow into docs."]);
    assert_eq!(flow.answers()[2]["exit_code"], 0, "{}", flow.answers()[2]);
    flow.has_copied(3);
    let drawn: Value = serde_json::from_str(&flow.project("docs/flow.excalidraw")).unwrap();
    let arrows = drawn["elements"].as_array().unwrap().iter().filter(|element| element["type"] == "arrow");
    assert!(arrows.count() > 0, "{told}");
    assert!(told.contains("[WORLD]/project/docs/flow.excalidraw"), "the person sees where it is:\n{told}");
}

/// A skill that works on other skills validates one of the project and packs it.
fn skill_is_validated_and_packed(person: Person) {
    const SKILL: &str = "skill-creator";
    let flow = Flow::new(
        person,
        &[SKILL],
        vec![
            load(SKILL),
            ls_project(),
            from_shown("skill_run", |shown| {
                let (kit, out) = (shown.path("/project/kite-kit"), shown.path("/work/out"));
                let command = format!(
                    "python3 -m scripts.quick_validate {kit} && python3 -m scripts.package_skill {kit} {out}"
                );
                json!({"skill": SKILL, "command": command, "output_files": ["out/*.skill"]})
            }),
            from_shown(
                "copy_file",
                |shown| json!({"from": shown.path("kite-kit.skill"), "to": format!("{}/dist/", shown.path("/project"))}),
            ),
            Answer::text("Packed."),
        ],
    );
    let manifest =
        "---\nname: kite-kit\ndescription: Packs a kite. Use before a windy day.\n---\n\nPack it.\n";
    flow.world.file("project/kite-kit/SKILL.md", manifest);
    flow.chat(&["Check my skill kite-kit and pack it into dist."]);
    assert_eq!(flow.answers()[2]["exit_code"], 0, "{}", flow.answers()[2]);
    flow.has_copied(3);
    let packed = std::fs::read(flow.world.path("project/dist/kite-kit.skill")).unwrap();
    assert!(packed.starts_with(b"PK"));
}

const DIAGRAM: &str = r#"<mxfile><diagram id="d1" name="Page-1"><mxGraphModel><root><mxCell id="0"/><mxCell id="1" parent="0"/>
<mxCell id="3" value="Site" style="text;html=1;fontSize=18;" vertex="1" parent="1"><mxGeometry x="40" y="0" width="200" height="30" as="geometry"/></mxCell>
<mxCell id="2" value="Web" style="rounded=1;" vertex="1" parent="1"><mxGeometry x="40" y="40" width="120" height="60" as="geometry"/></mxCell>
</root></mxGraphModel></diagram></mxfile>
"#;

/// A diagram of the project is validated, changed and put back.
fn shape_is_added_to_a_diagram(person: Person) {
    const SKILL: &str = "draw-io-diagram-generator";
    let flow = Flow::new(
        person,
        &[SKILL],
        vec![
            load(SKILL),
            ls_project(),
            from_shown("skill_run", |shown| {
                let (script, diagram) =
                    (shown.path("scripts/validate-drawio.py"), shown.path("/site.drawio"));
                json!({"skill": SKILL, "command": format!("python3 {script} {diagram}")})
            }),
            from_shown("skill_run", |shown| {
                let (script, diagram) = (shown.path("scripts/add-shape.py"), shown.path("/site.drawio"));
                let out = shown.path("/work/out");
                let command =
                    format!("cp {diagram} {out}/ && python3 {script} {out}/site.drawio Database 300 40");
                json!({"skill": SKILL, "command": command, "output_files": ["out/*.drawio"]})
            }),
            from_shown("copy_file", |shown| {
                let to = shown.path("/project/site.drawio");
                json!({"from": shown.path("/work/out/site.drawio"), "to": to, "replace": true})
            }),
            Answer::text("Added."),
        ],
    );
    flow.world.file("project/site.drawio", DIAGRAM);
    flow.chat(&["Is site.drawio valid? Add the database."]);
    for run in &flow.answers()[2..4] {
        assert_eq!(run["exit_code"], 0, "{run}");
    }
    flow.has_copied(4);
    let changed = flow.project("site.drawio");
    assert!(changed.contains("Database") && changed.contains("Web"), "{changed}");
}

/// A server and a browser run together in the sandbox, without any network.
fn page_is_tested(person: Person) {
    const SKILL: &str = "webapp-testing";
    let flow = Flow::new(
        person,
        &[SKILL],
        vec![
            load(SKILL),
            ls_project(),
            from_shown("skill_run", |shown| {
                let (script, site) = (shown.path("scripts/with_server.py"), shown.path("/project/site"));
                let browse =
                    "chromium-headless-shell --no-sandbox --disable-gpu --dump-dom http://127.0.0.1:8123/";
                let serve = format!("python3 -m http.server 8123 --directory {site}");
                json!({"skill": SKILL, "command": format!("python3 {script} --server '{serve}' --port 8123 -- {browse}")})
            }),
            Answer::text("It greets."),
        ],
    );
    let page = "<p id=p></p><script>p.textContent = 'Hello ' + 40 + 2</script>";
    flow.world.file("project/site/index.html", page);
    flow.chat(&["Does the page greet?"]);
    let run = &flow.answers()[2];
    assert_eq!(run["exit_code"], 0, "{run}");
    assert!(run["stdout"].as_str().unwrap().contains("Hello 402"), "{run}");
}

macro_rules! as_person {
    ($module:ident, $person:ident: $($name:ident)*) => {
        mod $module {
            $(#[test]
            #[ignore = "needs PROWESS_WILD_SKILLS: make workflows"]
            fn $name() {
                super::$name(super::Person::$person);
            })*
        }
    };
}

as_person! {
    as_root, Root:
    plan_is_analysed
    diagram_is_put_into_the_project
    skill_is_validated_and_packed
    shape_is_added_to_a_diagram
    page_is_tested
}

// No browser: a plain user has no control group here, and then a command gets too little address space for one.
as_person! {
    as_plain_user, Plain:
    plan_is_analysed
    diagram_is_put_into_the_project
    skill_is_validated_and_packed
    shape_is_added_to_a_diagram
}

/// The paths of the tree in every tool: what one call prints, the next one takes.
#[test]
fn a_path_that_one_tool_shows_works_in_the_others() {
    let flow = Flow::new(
        Person::Root,
        &[],
        vec![
            load("tides"),
            from_shown("read_file", |shown| json!({"file_path": shown.path("scripts/tides.sh")})),
            from_shown("skill_run", |shown| {
                let command = format!("sh {}", shown.path("scripts/tides.sh"));
                json!({"skill": "tides", "command": command, "output_files": ["out/*"]})
            }),
            from_shown("read_file", |shown| json!({"file_path": shown.path("out/tide.txt")})),
            from_shown(
                "skill_run",
                |shown| json!({"skill": "tides", "command": format!("wc -c < {}", shown.path("out/tide.txt"))}),
            ),
            Answer::text("High."),
        ],
    );
    flow.chat(&["is it high?"]);
    let answers = flow.answers();
    assert!(answers[1].to_string().contains("echo high"), "{answers:?}");
    assert_eq!(answers[2]["stdout"], "high\n", "{answers:?}");
    assert!(answers[3].to_string().contains("high"), "{answers:?}");
    assert_eq!(answers[4]["stdout"].as_str().map(str::trim), Some("5"), "{answers:?}");
}

/// Threads of earlier versions have other paths in their messages.
#[test]
fn paths_of_earlier_versions_still_open() {
    let real = |flow: &Flow, path: &str| flow.world.path(path).to_string_lossy().into_owned();
    let flow = Flow::new(Person::Root, &[], Vec::new());
    flow.world.file("project/notes.md", "- tides\n");
    let paths = ["/notes.md".to_owned(), "/project/notes.md".to_owned(), real(&flow, "project/notes.md")];
    let model = FakeModel::start(vec![
        runs("mkdir -p out; echo high > out/a.txt"),
        paths
            .iter()
            .fold(Answer::call("read_file", json!({"file_path": "/ws/out/a.txt"})), |answer, path| {
                answer.and_call("read_file", json!({"file_path": path}))
            }),
        runs("cat /ws/out/a.txt"),
        Answer::text("High."),
    ]);
    configure(&flow.world, &model.url(), "");
    let told = flow.world.run(&["chat", "--yes", "is it high?"]);
    let requests = model.requests();
    let read = all(&requests[2]);
    assert_eq!(read.matches("- tides").count(), 3, "{read}\n{told}");
    assert!(read.contains("high"), "{read}");
    assert_eq!(answered(&requests[3])["stdout"], "high\n");
}

/// What a person is shown has real paths, also where the model reads others.
#[test]
fn a_person_sees_real_paths() {
    let write = json!({"file_path": "/project/new.txt", "content": "x\n"});
    let flow =
        Flow::new(Person::Root, &[], vec![Answer::call("write_file", write), Answer::text("Written.")]);
    let pty = begun(&flow.world, &[], 160, 40);
    pty.type_line("write it");
    let screen = pty.wait_for("allow it?");
    let real = flow.world.path("project/new.txt");
    assert!(screen.replace('\n', "").contains(&*real.to_string_lossy()), "{screen}");
    assert!(!screen.contains("/project/new.txt  "), "{screen}");
    pty.type_line("y");
    pty.wait_for("Written.");
    assert!(Path::new(&real).is_file());
}
