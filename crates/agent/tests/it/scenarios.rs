//! The integration scenarios: skills beside files, sub-agents and summaries, and their life from load to load. A
//! scripted model that looks at what it is sent, a database in a file, files on a disk, commands in a sandbox.

use std::sync::Arc;

use prowess_agent::middleware::{
    Files, Keep, SkillsState, SubAgents, Summarisation, Trigger, WorkspaceFiles,
};
use prowess_agent::{NoWatcher, ThreadId, TurnOutcome, TurnStatus};
use prowess_backend::{Backend, ReadRange, VirtualPath};
use prowess_models::{Scripted, ScriptedExpect, ScriptedTurn as Says};
use prowess_permission::Decision;
use prowess_skills::options::SkillPaths;
use prowess_skills::{Dialect, Guidance, SessionOptions};
use serde_json::json;

use crate::agent::results;
use crate::world::{World, open};

/// A session whose model sees the skills where its file tools have them.
fn in_tree(guidance: Guidance) -> SessionOptions {
    let mut options = SessionOptions::new(Dialect::DeepAgents);
    options.guidance = guidance;
    options.skill_paths = SkillPaths::Below("/skills".to_owned());
    options
}

fn load(name: &str) -> Says {
    Says::new().call("load_skill", json!({"skill_name": name}))
}

/// Seed 000 §8.2, 1, and seed 001 §6.2, 1: a skill is loaded, then one of its files read, by the tools of two middleware.
#[tokio::test]
async fn scenario_1_skills_beside_files() {
    let world = World::new(&[("pdf", "", "Read references/forms.md before you fill a form.")]).await;
    world.write("pdf/references/forms.md", "Fill every field.\n");
    let model = Scripted::new([
        load("pdf").expect(ScriptedExpect::new().tool("load_skill").tool("read_file").system("**pdf**")),
        Says::new()
            .call("read_file", json!({"file_path": "/skills/pdf/references/forms.md"}))
            // The path of the call is the one that the answer printed.
            .expect(
                ScriptedExpect::new()
                    .last("Read references/forms.md before")
                    .last("- [reference] `/skills/pdf/references/forms.md`"),
            ),
        Says::new().say("Filled.").expect(ScriptedExpect::new().last("Fill every field.")),
    ]);
    let agent = world
        .agent(Arc::new(model.clone()))
        .middleware(world.skills_with(move |_| in_tree(Guidance::Tools), &[("skill", "*", Decision::Allow)]))
        .middleware(Files::new(world.backend()))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(
        thread.say("Fill this form.", &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Responded)
    );
    assert_eq!((model.remaining(), thread.last_response().as_deref()), (0, Some("Filled.")));
}

/// Seed 001 §6: a model that reads a manifest by the path in the overview changes no state, and can load the skill later.
#[tokio::test]
async fn read_file_still_works_for_skills() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Scripted::new([
        Says::new()
            .call("read_file", json!({"file_path": "/skills/pdf/SKILL.md"}))
            // The overview printed this path.
            .expect(ScriptedExpect::new().system("-> Read `/skills/pdf/SKILL.md` for full instructions")),
        load("pdf").expect(ScriptedExpect::new().last("The way of pdf.").not_in_system("[Loaded]")),
        Says::new().say("Read.").expect(ScriptedExpect::new().last("The way of pdf.")),
    ]);
    let agent = world
        .agent(Arc::new(model.clone()))
        .middleware(
            world.skills_with(move |_| in_tree(Guidance::ReadFile), &[("skill", "*", Decision::Allow)]),
        )
        .middleware(Files::new(world.backend()))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("How does pdf work?", &NoWatcher).await.unwrap();
    assert_eq!(model.remaining(), 0);
    let loaded = SkillsState::of(thread.states()).unwrap().loaded();
    assert_eq!(loaded.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["pdf"]);
}

/// Seed 000 §8.2, 2, and seed 001 §6.2, 2: what the parent has loaded is not loaded in its sub-agent, which loads it for
/// itself, and the other way round.
#[tokio::test]
async fn scenario_2_skills_beside_sub_agents() {
    let world = World::new(&[("pdf", "", "The way of pdf."), ("csv", "", "The way of csv.")]).await;
    let child = Scripted::new([
        load("pdf").expect(
            ScriptedExpect::new()
                .not_in_system("[Loaded]")
                .not_in_conversation("The way of pdf.")
                .messages(1),
        ),
        load("csv").expect(ScriptedExpect::new().system("**pdf** [Loaded]").last("The way of pdf.")),
        Says::new().say("Both loaded.").expect(ScriptedExpect::new().system("**csv** [Loaded]")),
    ]);
    let model = Scripted::new([
        load("pdf"),
        Says::new()
            .call("task", json!({"description": "Load both."}))
            .expect(ScriptedExpect::new().system("**pdf** [Loaded]")),
        Says::new().say("Done.").expect(
            ScriptedExpect::new()
                .last("Both loaded.")
                .system("**pdf** [Loaded]")
                .not_in_system("**csv** [Loaded]")
                .not_in_conversation("The way of csv."),
        ),
    ]);
    let worker =
        world.agent(Arc::new(child.clone())).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let agent = world
        .agent(Arc::new(model.clone()))
        .middleware(world.skills(Dialect::DeepAgents))
        .middleware(SubAgents::new(worker))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!((model.remaining(), child.remaining()), (0, 0));
    let loaded = SkillsState::of(thread.states()).unwrap().loaded();
    assert_eq!(loaded.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["pdf"]);
}

/// Seed 000 §8.2, 3, and seed 001 §6.2, 3: after a compaction the overview is whole and the loaded skill is in the next
/// request, whichever of the two middleware comes first.
#[tokio::test]
async fn scenario_3_skills_beside_summaries() {
    for skills_first in [true, false] {
        let world = World::new(&[("pdf", "", "The way of pdf."), ("csv", "", "The way of csv.")]).await;
        let summarises = Scripted::new([Says::new().say("pdf was loaded.")]);
        let model = Scripted::new([
            load("pdf"),
            Says::new().say("Loaded."),
            Says::new().say("Still here.").expect(
                ScriptedExpect::new()
                    .system("**pdf** [Loaded]")
                    .system("**csv**")
                    .conversation("pdf was loaded.")
                    .last("The way of pdf."),
            ),
        ]);
        let files = world.backend();
        let summaries = Summarisation::new(Arc::new(summarises.clone()), files.clone())
            .trigger(Trigger::Messages(5))
            .keep(Keep::Messages(1));
        let skills = world.skills(Dialect::DeepAgents);
        let builder = world.agent(Arc::new(model.clone()));
        let agent = match skills_first {
            true => builder.middleware(skills).middleware(summaries).build().unwrap(),
            false => builder.middleware(summaries).middleware(skills).build().unwrap(),
        };
        let mut thread = open(&agent).await;
        thread.say("Load pdf.", &NoWatcher).await.unwrap();
        assert_eq!(
            thread.say("And now?", &NoWatcher).await.unwrap(),
            TurnStatus::Ended(TurnOutcome::Responded)
        );
        assert_eq!((model.remaining(), summarises.remaining()), (0, 0), "skills first: {skills_first}");
        let history = VirtualPath::parse(&format!("/conversation_history/{}.md", thread.id())).unwrap();
        let history = files.read(&history, ReadRange::first(1 << 20)).await.unwrap();
        assert!(String::from_utf8_lossy(&history.bytes).contains("The way of pdf."));
    }
}

/// Seed 000 §8.2, 4: a loaded skill shows in the next prompt, with what it brings along.
#[tokio::test]
async fn scenario_4_a_load_shows_in_the_next_prompt() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    world.write("pdf/scripts/fill.sh", "echo filled\n");
    world.write("pdf/references/forms.md", "Forms.\n");
    let model = Scripted::new([
        load("pdf").expect(ScriptedExpect::new().system("load_skill(\"pdf\")").not_in_system("[Loaded]")),
        Says::new().say("ok").expect(
            ScriptedExpect::new()
                .system("**pdf** [Loaded]")
                .system("1 script")
                .not_in_system("load_skill(\"pdf\")"),
        ),
    ]);
    let agent =
        world.agent(Arc::new(model.clone())).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(model.remaining(), 0);
}

/// Seed 000 §8.2, 5: an unloaded skill no longer shows as loaded, and how to load it is said again.
#[tokio::test]
async fn scenario_5_an_unload_shows_in_the_next_prompt() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let model = Scripted::new([
        load("pdf"),
        Says::new()
            .call("unload_skill", json!({"skill_name": "pdf"}))
            .expect(ScriptedExpect::new().system("**pdf** [Loaded]")),
        Says::new()
            .say("ok")
            .expect(ScriptedExpect::new().system("load_skill(\"pdf\")").not_in_system("[Loaded]")),
    ]);
    let agent =
        world.agent(Arc::new(model.clone())).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(model.remaining(), 0);
}

/// Seed 000 §8.2, 6: load, run in the sandbox, unload, load again in another process, with what has changed on the disk.
#[tokio::test]
async fn scenario_6_load_run_unload_and_load_again() {
    let world = World::new(&[("count", "", "Run scripts/count.sh.")]).await;
    world.write("count/scripts/count.sh", "echo one two three > out/words.txt; wc -w < out/words.txt\n");
    let model = Scripted::new([
        Says::new().call("skill_load", json!({"skill": "count"})),
        Says::new()
            .call(
                "skill_run",
                json!({"skill": "count", "command": "mkdir -p out && sh scripts/count.sh",
                       "output_files": ["out/*.txt"]}),
            )
            .expect(ScriptedExpect::new().system("Run scripts/count.sh.")),
        Says::new()
            .call("skill_unload", json!({"skill": "count"}))
            .expect(ScriptedExpect::new().last("one two three")),
        Says::new().say("Counted.").expect(ScriptedExpect::new().not_in_system("Run scripts/count.sh.")),
        Says::new().call("skill_load", json!({"skill": "count"})),
        Says::new()
            .say("Again.")
            .expect(ScriptedExpect::new().system("Run scripts/count.sh.").system("extra.md")),
    ])
    .model_name("scripted:counts");
    let agent = world.agent(Arc::new(model.clone())).middleware(world.skills(Dialect::Trpc)).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    assert_eq!(thread.say("Count.", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let run = results(&thread)[1].clone();
    assert!(run.contains("\"exit_code\":0") && run.contains("bwrap"), "{run}");
    thread.close().await.unwrap();
    world.write("count/extra.md", "More.\n");
    let agent = world.agent(Arc::new(model.clone())).middleware(world.skills(Dialect::Trpc)).build().unwrap();
    let mut thread = agent.open(id).await.unwrap();
    thread.say("Once more.", &NoWatcher).await.unwrap();
    assert_eq!(thread.last_response().as_deref(), Some("Again."), "{:?}", thread.state().outcome());
    let usage = SkillsState::of(thread.states()).unwrap().usage()["count"];
    assert_eq!((usage.loads, usage.runs), (2, 1));
    assert!(usage.tokens > 0);
}

/// `execute` runs in the sandbox, on the files that the file tools see and that commands of skills see in `work/`.
#[tokio::test]
async fn execute_runs_in_the_sandbox_where_the_files_are() {
    let world = World::new(&[("words", "", "Count words.")]).await;
    let model = Scripted::new([
        Says::new().call("write_file", json!({"file_path": "/text.txt", "content": "one two\n"})),
        Says::new().call(
            "execute",
            json!({"command": "wc -w < text.txt; echo three >> text.txt; ls /root; exit 4"}),
        ),
        Says::new().call("skill_run", json!({"skill": "words", "command": "wc -w < $WORK_DIR/text.txt"})),
        Says::new().say("Counted."),
    ]);
    let files = WorkspaceFiles::new(world.runner());
    let agent = world
        .agent(Arc::new(model))
        .middleware(files.clone())
        .middleware(world.skills(Dialect::Trpc))
        .middleware(Files::new(files))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let results = results(&thread);
    assert!(results[1].starts_with("2\n") && results[1].contains("[exit code 4]"), "{results:?}");
    assert!(results[2].contains("\"stdout\":\"3"), "{results:?}");
}
