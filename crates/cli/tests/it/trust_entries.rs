//! Trust entry by entry: what is new or changed is asked about, and the rest stays usable.

use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use crate::model::{Answer, FakeModel};
use crate::pty::Pty;
use crate::world::World;

const TIDES: &str = "project/.prowess/skills/tides/SKILL.md";

/// A project with two skills in two directories, a configuration and a memory.
fn furnished() -> World {
    let world = World::new();
    world
        .skill("project/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .skill("project/.claude/skills", "kites", "Builds kites. Use in wind.")
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 20\n")
        .file("project/AGENTS.md", "Speak of the sea.\n");
    world
}

fn trusted() -> World {
    let world = furnished();
    trust(&world);
    world
}

fn trust(world: &World) {
    world.stdout(&["trust", "--yes"]);
}

/// What is said about the project by `list`, and the skills that models see.
fn standing(world: &World) -> String {
    let told = world.run(&["list"]);
    let line = told.split("--- err\n").nth(1).unwrap().to_owned();
    let prompt = world.stdout(&["prompt", "--form", "compact"]);
    let seen: Vec<&str> = prompt.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    format!("{line}models see: {}", seen.join(" | ")).trim_end().to_owned()
}

fn put_old_record(world: &World, refused: &str) {
    let project = world.path("project").to_string_lossy().into_owned();
    // As the program wrote it that trusted projects as a whole.
    let record = format!(
        r#"{{
  "version": 1,
  "projects": [
    {{
      "project": "{project}",
      "at": "2026-01-02T03:04:05Z",
      "items": {{
        ".claude/skills/kites": "c789ba52c181297e1a902166861e21a6b586db29d54ade4ef13af7b0686efa35",
        ".prowess/skills/tides": "75c030f196929b14debbdf214fbbedebc89d56ac3f06bbaf0f8726130809f581",
        "AGENTS.md": "952bd4a059c0e49767017eb965bea50b48a4c5379529359302340e05c2f21348",
        "prowess.toml": "4d4a05989e1d64da143aaec3b98b005521be896bf2f925bc11f0029009d4e01c"
      }}{refused}
    }}
  ]
}}
"#
    );
    // Its digest is of a file with the old name of a key.
    world
        .file("project/prowess.toml", "[skills]\nmax_loaded = 20\n")
        .file("home/.local/state/prowess/trust.json", &record);
}

#[test]
fn a_new_skill_leaves_the_others_trusted() {
    let world = trusted();
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (boats is new): 1 project skill is hidden from models; 4 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
    assert!(world.stdout(&["config", "show"]).contains("skills.max_loaded_skills\t20\t"));
    let listed = world.json(&["list", "--json"]);
    let status = |name: &str| {
        let all = listed["skills"].as_array().unwrap();
        let row = all.iter().find(|row| row["name"] == name).unwrap();
        (row["status"].as_str().unwrap().to_owned(), row["source"]["trust"].as_str().unwrap().to_owned())
    };
    assert_eq!(status("tides"), ("active".to_owned(), "trusted".to_owned()));
    assert_eq!(status("boats"), ("untrusted".to_owned(), "untrusted".to_owned()));
    let info = world.stdout(&["info", "boats"]);
    assert!(info.contains("no, it is not trusted (it is new)\n"), "the project is trusted: {info}");
    let run = world.output(&["run", "tides", "--", "true"]);
    assert_eq!(run.status.code(), Some(0), "{}", world.told(&run));
    assert_snapshot!(world.run(&["run", "boats", "--", "true"]), @r"
    exit 125
    --- out
    --- err
    prowess: the skill `boats` of this project is not trusted (it is new): review [WORLD]/project/.prowess/skills/boats, then run `prowess trust`, or add --trust-project for this command only
    ");
    // Only what is new is shown and asked about.
    assert_snapshot!(world.run(&["trust", "--yes"]), @r"
    exit 0
    --- out
    [WORLD]/project contains, besides what you trust:

      .prowess/skills/boats (new): 1 file, 76 B
        boats: Builds boats. Use at sea.
        files: SKILL.md

    The 4 other items stay trusted.

    [WORLD]/project is trusted.
    --- err
    ");
    assert_snapshot!(standing(&world), @r"models see: boats: Builds boats. Use at sea. | kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.");
}

#[test]
fn a_link_into_another_directory_of_the_project_is_that_skill_once() {
    let world = furnished();
    world.skill("project/.agents/skills", "nets", "Knots nets. Use at sea.");
    world.skill("project/.agents/skills/shelf", "hooks", "Bends hooks. Use at sea.");
    let link = |target: &str, path: &str| symlink(target, world.path(path)).unwrap();
    link("../../.agents/skills/nets", "project/.claude/skills/nets");
    link("../../.agents/skills/shelf/hooks", "project/.claude/skills/hooks");
    // All of a directory, under the name of another client.
    std::fs::create_dir_all(world.path("project/.opencode")).unwrap();
    link("../.agents/skills", "project/.opencode/skills");
    assert_snapshot!(world.run(&["trust", "--yes"]), @r"
    exit 0
    --- out
    [WORLD]/project contains:

      .agents/skills/nets: 1 file, 72 B
        nets: Knots nets. Use at sea.
        files: SKILL.md

      .agents/skills/shelf: 1 file, 75 B
        hooks: Bends hooks. Use at sea.
        files: hooks/SKILL.md

      .claude/skills/kites: 1 file, 77 B
        kites: Builds kites. Use in wind.
        files: SKILL.md

      .prowess/skills/tides: 1 file, 78 B
        tides: Looks up tides. Use at sea.
        files: SKILL.md

      AGENTS.md: text for the model, 18 B
        Speak of the sea.

      prowess.toml: settings, 32 B
        [skills]
        max_loaded_skills = 20

    [WORLD]/project is trusted.
    --- err
    ");
    for args in [&["list", "--json", "--all"][..], &["list", "--json", "--all", "--follow-links"]] {
        let listed = world.json(args);
        let rows: Vec<_> =
            listed["skills"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(rows, ["hooks", "kites", "nets", "tides"], "{args:?}");
    }
    assert_snapshot!(world.run(&["list", "--diagnostics"]), @r"
    exit 0
    --- out
    hooks	project: Agents	Bends hooks. Use at sea.
    kites	project: Claude	Builds kites. Use in wind.
    nets	project: Agents	Knots nets. Use at sea.
    tides	project	Looks up tides. Use at sea.

    [WORLD]/project/.claude/skills/hooks: info [link-duplicate] the link leads to a skill found in its own place (nothing needs to be done)
    [WORLD]/project/.claude/skills/nets: info [link-duplicate] the link leads to a skill found in its own place (nothing needs to be done)

    2 diagnostics
    --- err
    ");
    // It is known by what it leads to, and where that changes it is one change.
    world.skill("project/.agents/skills", "nets", "Cuts nets. Use at sea.");
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (nets changed): 1 project skill is hidden from models; 5 other items stay trusted; `prowess trust` shows the rest
    models see: hooks: Bends hooks. Use at sea. | kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
}

#[test]
fn a_link_out_makes_only_its_entry_untrustable() {
    let world = furnished();
    symlink("/etc", world.path("project/.claude/skills/evil")).unwrap();
    world.skill("project/tools", "saws", "Saws. Use on wood.");
    symlink("../../tools/saws", world.path("project/.claude/skills/saws")).unwrap();
    let output = world.output(&["trust", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{}", world.told(&output));
    assert_snapshot!(world.told(&output), @r"
    exit 1
    --- out
    [WORLD]/project contains:

      .claude/skills/evil: 0 files, 0 B
        cannot be trusted: it is a link that leads out of the project's skill directories

      .claude/skills/kites: 1 file, 77 B
        kites: Builds kites. Use in wind.
        files: SKILL.md

      .claude/skills/saws: 0 files, 0 B
        cannot be trusted: it is a link that leads out of the project's skill directories

      .prowess/skills/tides: 1 file, 78 B
        tides: Looks up tides. Use at sea.
        files: SKILL.md

      AGENTS.md: text for the model, 18 B
        Speak of the sea.

      prowess.toml: settings, 32 B
        [skills]
        max_loaded_skills = 20

    [WORLD]/project is trusted, except for what cannot be trusted: evil is a link that leads out of the project's skill directories, saws is a link that leads out of the project's skill directories.
    --- err
    ");
    assert_snapshot!(standing(&world), @r"
    2 links were not followed because they lead out of their roots: [WORLD]/project/.claude/skills/evil and 1 more; use --follow-links to follow links
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
    assert_snapshot!(world.run(&["trust"]), @r"
    exit 1
    --- out
    [WORLD]/project contains, besides what you trust:

      .claude/skills/evil: 0 files, 0 B
        cannot be trusted: it is a link that leads out of the project's skill directories

      .claude/skills/saws: 0 files, 0 B
        cannot be trusted: it is a link that leads out of the project's skill directories

    The 4 other items stay trusted.

    [WORLD]/project is trusted, except for what cannot be trusted: evil is a link that leads out of the project's skill directories, saws is a link that leads out of the project's skill directories.
    --- err
    ");
}

#[test]
fn records_of_version_1_stay_valid() {
    let world = furnished();
    put_old_record(&world, "");
    assert_snapshot!(standing(&world), @r"
    notice: [WORLD]/project/prowess.toml:2: `skills.max_loaded` is now called `skills.max_loaded_skills`; please rename it
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
    assert!(world.stdout(&["config", "show"]).contains("skills.max_loaded_skills\t20\t"));
    assert_eq!(world.json(&["trust", "--list", "--json"])[0]["items"].as_object().unwrap().len(), 4);
    world.skill("project/.prowess/skills", "tides", "Looks up other tides. Use at sea.");
    assert_snapshot!(standing(&world), @r"
    notice: [WORLD]/project/prowess.toml:2: `skills.max_loaded` is now called `skills.max_loaded_skills`; please rename it
    part of this project is not trusted (tides changed): 1 project skill is hidden from models; 3 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind.
    ");
    trust(&world);
    let stored = std::fs::read_to_string(world.path("home/.local/state/prowess/trust.json")).unwrap();
    assert!(
        stored.contains("\"version\": 2")
            && stored.contains("c789ba52c181297e1a902166861e21a6b586db29d54ade4ef13af7b0686efa35"),
        "{stored}"
    );

    // A no of then is a no to each of them.
    let world = furnished();
    put_old_record(&world, ",\n      \"refused\": true");
    assert_snapshot!(standing(&world), @r"
    this project is not trusted: 2 project skills are hidden from models, its prowess.toml is not used, its AGENTS.md is not read; `prowess trust` shows what it contains
    models see:
    ");
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    let mut pty = Pty::start(&world, &["chat"], 100, 40);
    pty.wait_for("[y/N]");
    let screen = pty.screen();
    assert!(screen.contains("boats") && !screen.contains("tides"), "{screen}");
    pty.kill();
}

#[test]
fn a_no_is_remembered_for_what_it_was_said_of() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = super::chat::world(&model);
    world.skill("project/.prowess/skills", "tides", "Looks up tides. Use at sea.").skill(
        "project/.prowess/skills",
        "kites",
        "Builds kites. Use in wind.",
    );
    trust(&world);
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    let mut pty = Pty::start(&world, &["chat"], 100, 40);
    pty.wait_for("[y/N]");
    assert_snapshot!(pty.screen().replace(&*world.path("").to_string_lossy(), "[WORLD]/"), @r"
    [WORLD]/project contains, besides what you trust:

      .prowess/skills/boats (new): 1 file, 76 B
        boats: Builds boats. Use at sea.
        files: SKILL.md

    The 2 other items stay trusted.

    Trust these? Models will see the skill and can ask to run its commands. The rest stays as it is.
      [y/N]
    ");
    pty.type_line("n");
    super::chat::at_prompt(&pty);
    pty.type_line("hello");
    pty.wait_for("Hello.");
    super::chat::at_prompt(&pty);
    let said = model.requests()[0].to_string();
    assert!(said.contains("Looks up tides") && !said.contains("Builds boats"), "{said}");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_snapshot!(standing(&world), @r"
    1 skill shadowed; see `prowess list --all --diagnostics`
    part of this project is not trusted (you said no to boats): 1 project skill is hidden from models; 2 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");

    // The same is not asked about again, and what changes is.
    let mut pty = super::chat::begun(&world, &[], 100, 40);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    world.skill("project/.prowess/skills", "kites", "Builds other kites. Use in wind.");
    let mut pty = Pty::start(&world, &["chat"], 100, 40);
    let screen = pty.wait_for("[y/N]");
    assert!(screen.contains("kites (changed)") && !screen.contains("boats"), "{screen}");
    pty.kill();
    // What was trusted stays so when it is back.
    world.skill("project/.prowess/skills", "kites", "Builds kites. Use in wind.");
    let mut pty = super::chat::begun(&world, &[], 100, 40);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    // Whoever asks is shown it again.
    assert!(world.run(&["trust"]).contains("boats (you said no)"));
    trust(&world);
    assert_snapshot!(standing(&world), @r"
    1 skill shadowed; see `prowess list --all --diagnostics`
    models see: boats: Builds boats. Use at sea. | kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
}

#[test]
fn an_entry_that_is_not_trusted_takes_no_name() {
    let world = trusted();
    world.skill("home/.prowess/skills", "knots", "Ties knots. Use at sea.");
    // In a directory with more precedence, under other names of directories, in another letter case.
    world
        .file("project/.prowess/skills/a/SKILL.md", "---\nname: kites\ndescription: Evil kites.\n---\n")
        .file("project/.prowess/skills/Tides/SKILL.md", "---\nname: Tides\ndescription: Evil tides.\n---\n")
        .file("project/.prowess/skills/TIDES/SKILL.md", "---\nname: tides\ndescription: Evil tides.\n---\n")
        .file("project/.prowess/skills/knots/SKILL.md", "---\nname: knots\ndescription: Evil knots.\n---\n");
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (TIDES is new, Tides is new, a is new, knots is new): 4 project skills are hidden from models; 4 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | knots: Ties knots. Use at sea. | tides: Looks up tides. Use at sea.
    ");
    assert_snapshot!(world.run(&["info", "kites"]).lines().skip(2).take(2).collect::<Vec<_>>().join("\n"), @r"
    kites
    Builds kites. Use in wind.
    ");
}

#[test]
fn a_skill_with_a_link_is_trusted_only_with_what_it_leads_to() {
    let world = furnished();
    world.file("project/.prowess/skills/shared/lib.sh", "echo good\n");
    symlink("../shared/lib.sh", world.path("project/.prowess/skills/tides/lib.sh")).unwrap();
    trust(&world);
    assert_snapshot!(standing(&world), @r"models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.");
    world.file("project/.prowess/skills/shared/lib.sh", "echo evil\n");
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (shared changed, tides has a link to shared, which is not trusted): 1 project skill is hidden from models; 3 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind.
    ");
    trust(&world);
    // Over several links, of which another one leads elsewhere now.
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    let current = world.path("project/.prowess/skills/boats/current");
    symlink("../shared/lib.sh", &current).unwrap();
    symlink("../boats/current", world.path("project/.prowess/skills/tides/now.sh")).unwrap();
    trust(&world);
    std::fs::remove_file(&current).unwrap();
    symlink("../tides/SKILL.md", &current).unwrap();
    let leads = "tides has a link to boats, which is not trusted";
    assert!(standing(&world).contains(leads));
    // What leads to something that cannot be trusted cannot be either, though somebody says yes.
    let pipe = world.path("project/.prowess/skills/boats/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let told = world.run(&["trust", "--yes"]);
    assert!(
        told.starts_with("exit 1")
            && told.contains("except for what cannot be trusted: boats contains something"),
        "{told}"
    );
    assert!(told.contains(leads), "{told}");
    std::fs::remove_file(&pipe).unwrap();
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (boats changed, tides has a link to boats, which is not trusted): 2 project skills are hidden from models; 4 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind.
    ");
}

#[test]
fn a_configuration_that_is_not_trusted_is_not_used_while_skills_are() {
    let world = trusted();
    world
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 19\n\n[permission]\nskill = \"deny\"\n");
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (prowess.toml changed): its prowess.toml is not used; 3 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
    let told = world.run(&["config", "show"]);
    assert!(told.contains("skills.max_loaded_skills\t10\tdefault"), "{told}");
    assert_snapshot!(told.split("--- err\n").nth(1).unwrap(), @r"part of this project is not trusted (prowess.toml changed): its prowess.toml is not used; 3 other items stay trusted; `prowess trust` shows the rest");
    assert_snapshot!(world.run(&["session", "-c", "load tides"]).lines().take(4).collect::<Vec<_>>().join("\n"), @r"
    exit 0
    --- out
    > load tides
    ── answer (57 tokens)
    ");
    assert_snapshot!(world.run(&["session", "-c", "skills"]).split("--- err\n").nth(1).unwrap(), @r"part of this project is not trusted (prowess.toml changed): its prowess.toml is not used; 3 other items stay trusted; `prowess trust` shows the rest");
    trust(&world);
    assert!(world.stdout(&["config", "show"]).contains("skills.max_loaded_skills\t19\t"));
}

#[test]
fn a_huge_entry_is_named_and_leaves_the_others_trusted() {
    let world = trusted();
    // Before and after the others, in the order of names.
    for name in ["aaa", "zzz"] {
        world.skill("project/.prowess/skills", name, "Is huge. Use never.");
        let file = std::fs::File::create(world.path(&format!("project/.prowess/skills/{name}/big"))).unwrap();
        file.set_len(65 << 20).unwrap();
    }
    // More small ones than a project may bring, before and after what is trusted.
    for number in 0..10_000 {
        std::fs::write(world.path(&format!("project/.claude/skills/{number}")), "").unwrap();
    }
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (.claude/skills has more than 10000 entries; only the ones that you decided about are read, aaa makes the project's skills larger than 67108864 bytes, zzz makes the project's skills larger than 67108864 bytes): 2 project skills are hidden from models; 4 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | tides: Looks up tides. Use at sea.
    ");
    let output = world.output(&["trust", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    let told = world.told(&output);
    assert!(told.contains("aaa makes the project's skills larger than 67108864 bytes"), "{told}");
    assert!(told.contains("zzz makes the project's skills larger than 67108864 bytes"), "{told}");
    assert!(standing(&world).contains("tides"));
}

#[test]
fn an_entry_that_is_swapped_while_it_is_asked_about_is_not_trusted() {
    let world = trusted();
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    let mut pty = Pty::start(&world, &["trust"], 200, 40);
    pty.wait_for("[y/N]");
    world.skill("project/.prowess/skills", "boats", "Sinks boats. Use at sea.");
    // Another one came meanwhile, and another process trusts it.
    world.skill("project/.prowess/skills", "nets", "Knots nets. Use at sea.");
    trust(&world);
    world.skill("project/.prowess/skills", "boats", "Burns boats. Use at sea.");
    pty.type_line("y");
    assert_eq!(pty.wait(), Some(0));
    assert_snapshot!(standing(&world), @r"
    part of this project is not trusted (boats changed): 1 project skill is hidden from models; 5 other items stay trusted; `prowess trust` shows the rest
    models see: kites: Builds kites. Use in wind. | nets: Knots nets. Use at sea. | tides: Looks up tides. Use at sea.
    ");
    // What was shown is what was trusted, and what the other one trusted stays.
    world.skill("project/.prowess/skills", "boats", "Builds boats. Use at sea.");
    assert_snapshot!(standing(&world), @r"models see: boats: Builds boats. Use at sea. | kites: Builds kites. Use in wind. | nets: Knots nets. Use at sea. | tides: Looks up tides. Use at sea.");
    assert!(std::fs::read_to_string(world.path(TIDES)).unwrap().contains("tides"));
}

/// A link can lead to a path that is too long to look at from the top of the project, while the system still follows the
/// link. The text behind it could change without being noticed.
#[test]
fn a_link_to_a_path_that_is_too_long_to_look_at_counts_as_one_that_leads_out() {
    use std::io::Write as _;

    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    let world = furnished();
    world.skill("project/.claude/skills", "deep", "Digs. Use in sand.");
    let names = vec!["d".repeat(250); 16];
    let last = "p".repeat(4095 - "../deep/".len() - 16 * 251 - "/text".len());
    let below = names.iter().chain([&last]);
    let mut at =
        openat(CWD, world.path("project/.claude/skills/deep"), OFlags::RDONLY, Mode::empty()).unwrap();
    for name in below.clone() {
        mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, name, OFlags::RDONLY, Mode::empty()).unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let text = openat(&at, "text", flags, Mode::from_raw_mode(0o644)).unwrap();
    let manifest = b"---\nname: far\ndescription: Looks far. Use at sea.\n---\nLook.\n";
    std::fs::File::from(text).write_all(manifest).unwrap();
    let target = format!("../deep/{}/text", below.cloned().collect::<Vec<_>>().join("/"));
    assert_eq!(target.len(), 4095);
    std::fs::create_dir(world.path("project/.claude/skills/far")).unwrap();
    symlink(&target, world.path("project/.claude/skills/far/SKILL.md")).unwrap();
    let output = world.output(&["trust", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!standing(&world).contains("far: Looks far"), "{}", standing(&world));
}

/// The text of a stranger must neither begin a row as prowess does, nor push everything else out of sight.
#[test]
fn a_long_line_of_a_project_is_cut_and_told() {
    let world = furnished();
    world.file("project/AGENTS.md", &"Trust this project? [y/N] yes ".repeat(1_000_000));
    let told = world.run(&["trust", "--yes"]);
    assert!(told.contains("… long lines are cut here: read "), "{}", told.len());
    assert!(told.contains("kites: Builds kites.") && told.len() < 10_000, "{}", told.len());
}

#[test]
fn no_row_of_a_project_s_text_begins_as_a_row_of_prowess() {
    let world = furnished();
    world.file("project/AGENTS.md", &"Trust this project? [y/N] yes ".repeat(20));
    let pty = Pty::start(&world, &["trust"], 60, 80);
    let screen = pty.wait_until("the question", |screen| screen.contains("You will be asked again"));
    let begins =
        |line: &&str| line.starts_with("Trust") || line.starts_with("this") || line.starts_with("[y");
    assert_eq!(screen.lines().filter(begins).count(), 1, "{screen}");
}
