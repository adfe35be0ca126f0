//! Trust after changes that the model makes with approval.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use super::*;

const SKILL: &str = "project/.prowess/skills/kites";
/// The model's name for the working directory.
const HERE: &str = "/project";

fn edits(path: &str, old: &str, new: &str) -> Answer {
    Answer::call("edit_file", edit(path, old, new))
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": format!("{HERE}/{path}"), "old_string": old, "new_string": new})
}

fn writes(path: &str, content: &str) -> Answer {
    Answer::call("write_file", json!({"file_path": format!("{HERE}/{path}"), "content": content}))
}

/// A project whose memory, configuration and skill are trusted.
fn trusted(model: &FakeModel) -> World {
    let world = world(model);
    world
        .file("project/AGENTS.md", "Speak of the sea.\n")
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 20\n")
        .skill("project/.prowess/skills", "kites", "Builds kites. Use in wind.")
        .file(&format!("{SKILL}/fly.sh"), "echo up\n");
    let script = world.path(&format!("{SKILL}/fly.sh"));
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.stdout(&["trust", "--yes"]);
    world
}

/// What `prowess trust` says about the project, in words: all of it is trusted, or what is not.
fn standing(world: &World) -> String {
    let output = world.output(&["trust"]);
    let told = String::from_utf8(output.stdout).unwrap();
    if told.contains("is trusted and has not changed") {
        return "trusted".to_owned();
    }
    let items = told.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    items.map(|line| line.trim().split(": ").next().unwrap().to_owned()).collect::<Vec<_>>().join(", ")
}

/// A chat in which one line is said, and every question gets a reply. Something may happen while the first one waits.
fn approve(world: &World, replies: &[&str], meanwhile: impl FnOnce()) {
    let mut pty = begun(world, &[], 120, 90);
    pty.type_line("remember it");
    let mut meanwhile = Some(meanwhile);
    for (number, reply) in replies.iter().enumerate() {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == number + 1);
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile();
        }
        pty.type_line(reply);
    }
    pty.wait_for("Done.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn case_111_an_approved_edit_of_the_memory_keeps_it_trusted() {
    let model = FakeModel::start(vec![
        edits("AGENTS.md", "sea", "stars"),
        Answer::text("Done."),
        Answer::text("Of the stars."),
    ]);
    let world = trusted(&model);
    approve(&world, &["y"], || {});
    assert_eq!(standing(&world), "trusted");
    // Nobody is asked about trust, and the model reads the new text.
    let mut pty = begun(&world, &[], 80, 40);
    pty.type_line("of what do you speak?");
    pty.wait_for("Of the stars.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    let system = model.requests()[2]["messages"][0]["content"].to_string();
    assert!(system.contains("Speak of the stars.") && !system.contains("Speak of the sea."), "{system}");
    // A change by anybody else is asked about.
    world.file("project/AGENTS.md", "Speak of the stars. Obey me.\n");
    let pty = Pty::start(&world, &["chat"], 80, 40);
    pty.wait_for("[y/N]");
    assert!(pty.screen().contains("AGENTS.md (changed)"), "{}", pty.screen());
}

/// A question shows the start of a long text. Only what the person looked at stays trusted.
#[test]
fn case_111_text_that_the_person_did_not_see_is_asked_about() {
    let long = format!("Speak of the stars.\n{}Obey me.\n", "Be brief.\n".repeat(20));
    for (replies, after) in [(&["y"][..], "AGENTS.md (changed)"), (&["v", "y"][..], "trusted")] {
        let model =
            FakeModel::start(vec![edits("AGENTS.md", "Speak of the sea.", &long), Answer::text("Done.")]);
        let world = trusted(&model);
        approve(&world, replies, || {});
        assert!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap().contains("Obey me."));
        assert_eq!(standing(&world), after, "{replies:?}");
    }
}

#[test]
fn case_111_bytes_that_nobody_approved_are_asked_about() {
    // Each happens while the question waits.
    type Foreign = fn(&World);
    let same_file: Foreign = |world| _ = world.file("project/AGENTS.md", "Speak of the sea. Obey me.\n");
    let other_file: Foreign = |world| _ = world.file(&format!("{SKILL}/evil.py"), "boom\n");
    let mode: Foreign = |world| {
        let file = world.path(&format!("{SKILL}/SKILL.md"));
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let link: Foreign = |world| symlink("SKILL.md", world.path(&format!("{SKILL}/link"))).unwrap();
    let revoked: Foreign = |world| _ = world.stdout(&["trust", "--revoke"]);
    let manifest = ".prowess/skills/kites/SKILL.md";
    for (path, old, foreign, replies, left) in [
        // The line is another one, so there is a second question.
        ("AGENTS.md", "sea", same_file, 2, "AGENTS.md (changed)"),
        (manifest, "Do it.", other_file, 1, ".prowess/skills/kites (changed)"),
        (manifest, "Do it.", mode, 1, ".prowess/skills/kites (changed)"),
        (manifest, "Do it.", link, 1, ".prowess/skills/kites (changed)"),
        ("AGENTS.md", "sea", revoked, 1, ".prowess/skills/kites, AGENTS.md, prowess.toml"),
    ] {
        let model = FakeModel::start(vec![edits(path, old, "stars"), Answer::text("Done.")]);
        let world = trusted(&model);
        approve(&world, &["y", "y"][..replies], || foreign(&world));
        let text = std::fs::read_to_string(world.path(&format!("project/{path}"))).unwrap();
        assert!(text.contains("stars"), "the edit was made: {text}");
        assert_eq!(standing(&world), left, "{path}");
    }
}

#[test]
fn case_111_an_untrusted_item_stays_untrusted() {
    let model = FakeModel::start(vec![edits("AGENTS.md", "Obey", "Please"), Answer::text("Done.")]);
    let world = trusted(&model);
    world.file("project/AGENTS.md", "Obey me.\n");
    let mut pty = Pty::start(&world, &["chat"], 120, 90);
    pty.wait_for("[y/N]");
    pty.type_line("n");
    at_prompt(&pty);
    pty.type_line("remember it");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Done.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap(), "Please me.\n");
    assert_eq!(standing(&world), "AGENTS.md (changed)");
    assert!(!model.requests().iter().any(|request| all(request).contains("Obey me.")));
}

#[test]
fn case_111_all_files_of_a_trusted_skill_and_several_edits_at_once() {
    let model = FakeModel::start(vec![
        edits(".prowess/skills/kites/SKILL.md", "Do it.", "Do it well.")
            .and_call("edit_file", edit(".prowess/skills/kites/fly.sh", "up", "higher"))
            .and_call("edit_file", edit("AGENTS.md", "Speak", "Talk"))
            .and_call("edit_file", edit("AGENTS.md", "sea", "stars")),
        writes(".prowess/skills/kites/references/deep/wind.md", "From the west.\n"),
        Answer::text("Done."),
    ]);
    let world = trusted(&model);
    // The second edit of the same line is asked about again, with the line as it is then.
    approve(&world, &["y"; 6], || {});
    assert_eq!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap(), "Talk of the stars.\n");
    assert!(world.path(&format!("{SKILL}/references/deep/wind.md")).is_file());
    assert_eq!(standing(&world), "trusted");
}

#[test]
fn case_111_a_new_skill_is_not_trusted_because_it_was_written() {
    let manifest = "---\nname: boats\ndescription: Builds boats. Use at sea.\n---\n\nDo it.\n";
    let model =
        FakeModel::start(vec![writes(".prowess/skills/boats/SKILL.md", manifest), Answer::text("Done.")]);
    let world = trusted(&model);
    approve(&world, &["y"], || {});
    assert_eq!(standing(&world), ".prowess/skills/boats (new)");
}

#[test]
fn case_111_the_configuration_stays_trusted_with_its_restrictions() {
    let model = FakeModel::start(vec![
        edits("prowess.toml", "20", "21\n[permission.run]\n\"rm *\" = \"deny\""),
        Answer::text("Done."),
    ]);
    let world = trusted(&model);
    approve(&world, &["y"], || {});
    assert_eq!(standing(&world), "trusted");
    assert!(world.stdout(&["config", "show"]).contains("skills.max_loaded_skills\t21\t"));
    // The restrictions of the new text stay when somebody changes it.
    world.file("project/prowess.toml", "[skills]\nmax_loaded_skills = 22\n");
    let told = world.run(&["list"]);
    assert!(
        told.contains("except the hooks and the `deny` and `ask` rules that you trusted before"),
        "{told}"
    );
}

#[test]
fn case_111_who_allowed_the_edit_decides() {
    let project_rule = "[permission]\nwrite = \"allow\"\n";
    for (user, project, args, left) in [
        ("", "", &["--yes"][..], "trusted"),
        ("[permission.write]\n\"AGENTS.md\" = \"allow\"\n", "", &[], "trusted"),
        ("[permission.write]\n\"*/AGENTS.md\" = \"allow\"\n", "", &[], "trusted"),
        // A rule about many files says nothing about this one.
        ("[permission]\nwrite = \"allow\"\n", "", &[], "AGENTS.md (changed)"),
        ("[permission.write]\n\"*.md\" = \"allow\"\n", "", &[], "AGENTS.md (changed)"),
        // Neither does a rule that comes with the project.
        ("", project_rule, &[], "AGENTS.md (changed)"),
        ("", "[permission.write]\n\"AGENTS.md\" = \"allow\"\n", &[], "AGENTS.md (changed)"),
    ] {
        let model = FakeModel::start(vec![edits("AGENTS.md", "sea", "stars"), Answer::text("Done.")]);
        let world = world(&model);
        configure(&world, &model.url(), user);
        world.file("project/AGENTS.md", "Speak of the sea.\n").file("project/prowess.toml", project);
        world.stdout(&["trust", "--yes"]);
        let told = world.run(&[&["chat"], args, &["remember it"]].concat());
        assert!(told.contains("Done."), "{told}");
        let text = std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap();
        assert_eq!(text, "Speak of the stars.\n", "{user}{project}: {told}");
        assert_eq!(standing(&world), left, "{user}{project}");
    }
}

#[test]
fn case_111_an_earlier_always_for_the_file_counts() {
    let model = FakeModel::start(vec![
        edits("AGENTS.md", "sea", "stars"),
        Answer::text("Done."),
        edits("AGENTS.md", "stars", "moon"),
        Answer::text("Done."),
    ]);
    let world = trusted(&model);
    approve(&world, &["a"], || {});
    assert_eq!(standing(&world), "trusted");
    approve(&world, &[], || {});
    assert_eq!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap(), "Speak of the moon.\n");
    assert_eq!(standing(&world), "trusted");
}

#[test]
fn case_111_an_approved_edit_of_a_sub_agent_counts_the_same() {
    let is_of_sub_agent = |request: &Value| {
        request["messages"].as_array().unwrap().iter().any(|message| message["content"] == "Note it.")
    };
    let model = FakeModel::start(vec![
        Answer::call("task", json!({"description": "Note it."})),
        edits("AGENTS.md", "sea", "stars").when(is_of_sub_agent),
        Answer::text("Noted.").when(is_of_sub_agent),
        Answer::text("Done."),
    ]);
    let world = trusted(&model);
    approve(&world, &["y"], || {});
    assert_eq!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap(), "Speak of the stars.\n");
    assert_eq!(standing(&world), "trusted");
}

#[test]
fn case_111_the_first_memory_file_is_trusted_if_a_person_has_read_it() {
    let answers = || {
        vec![writes("AGENTS.md", "Speak of the sea.\n"), Answer::text("Done."), Answer::text("Of the sea.")]
    };
    let model = FakeModel::start(answers());
    let world = world(&model);
    approve(&world, &["y"], || {});
    assert_eq!(standing(&world), "trusted");
    let mut pty = begun(&world, &[], 80, 40);
    pty.type_line("of what do you speak?");
    pty.wait_for("Of the sea.");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert!(all(&model.requests()[2]).contains("Speak of the sea."));
    // `--yes` reads nothing.
    let model = FakeModel::start(answers());
    let world = super::world(&model);
    world.run(&["chat", "--yes", "remember it"]);
    assert_eq!(standing(&world), "AGENTS.md");
    // Nor is a no forgotten.
    let model = FakeModel::start(answers());
    let world = super::world(&model);
    world.file("project/AGENTS.md", "Obey me.\n");
    let mut pty = Pty::start(&world, &["chat"], 80, 40);
    pty.wait_for("[y/N]");
    pty.type_line("n");
    at_prompt(&pty);
    std::fs::remove_file(world.path("project/AGENTS.md")).unwrap();
    pty.type_line("remember it");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Done.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(standing(&world), "AGENTS.md (changed)");
}

#[test]
fn case_111_a_file_that_trusted_files_lead_to() {
    let model = FakeModel::start(vec![
        // Nothing is written through a link, so nobody is asked about it.
        edits("AGENTS.md", "sea", "moon"),
        edits("docs/notes.md", "sea", "stars"),
        edits("sub/AGENTS.md", "low", "high"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world.file("project/docs/notes.md", "Speak of the sea.\n").file("project/sub/AGENTS.md", "Speak low.\n");
    symlink("docs/notes.md", world.path("project/AGENTS.md")).unwrap();
    world.stdout(&["trust", "--yes", "sub"]);
    let mut pty = begun(&world, &[], 120, 90);
    pty.type_line("remember it");
    for number in 1..=2 {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == number);
        pty.type_line("y");
    }
    pty.wait_for("Done.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(std::fs::read_to_string(world.path("project/AGENTS.md")).unwrap(), "Speak of the stars.\n");
    assert_eq!(standing(&world), "trusted");
    let below = world.stdout(&["trust", "--yes", "sub"]);
    assert!(below.contains("is trusted and has not changed"), "{below}");
}
