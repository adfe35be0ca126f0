//! `new` and `package`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn a_new_skill_passes_check_and_its_example_runs() {
    let world = World::new();
    assert_snapshot!(world.run(&["new", "tide-tables"]));
    let checked = world.json(&["check", "--json", ".prowess/skills/tide-tables"]);
    assert_eq!((&checked[0]["valid_strict"], &checked[0]["advice"]), (&true.into(), &serde_json::json!([])));

    let skill = world.path("project/.prowess/skills/tide-tables");
    for path in ["scripts", "references", "assets"] {
        assert!(skill.join(path).is_dir(), "{path}");
    }
    let command = "mkdir -p out && bash scripts/hello.sh world > out/hello.txt";
    assert!(std::fs::read_to_string(skill.join("SKILL.md")).unwrap().contains(command));
    let run = std::process::Command::new("bash").args(["-c", command]).current_dir(&skill).status().unwrap();
    assert!(run.success());
    assert_eq!(std::fs::read_to_string(skill.join("out/hello.txt")).unwrap(), "Hello, world!\n");
}

#[test]
fn create_is_another_word_for_new_and_takes_a_description() {
    let world = World::new();
    world.stdout(&["create", "x", "--in", "here", "--description", "Says: \"x\". Use for #1."]);
    let checked = world.json(&["check", "--json", "here/x"]);
    assert_eq!(
        (&checked[0]["valid_strict"], &checked[0]["description"]),
        (&true.into(), &"Says: \"x\". Use for #1.".into())
    );
}

#[test]
fn what_exists_is_not_touched() {
    let world = World::new();
    world.file("project/.prowess/skills/mine/SKILL.md", "precious");
    assert_snapshot!(world.run(&["new", "mine"]));
    assert_eq!(
        std::fs::read_to_string(world.path("project/.prowess/skills/mine/SKILL.md")).unwrap(),
        "precious"
    );
}

#[test]
fn names_that_are_no_names_are_refused_with_a_better_one() {
    let world = World::new();
    for name in ["My Skill", "../up", "a--b", "-x", ""] {
        assert_snapshot!(world.run(&["new", "--", name]));
    }
    assert!(!world.path("project/.prowess").exists());
}

#[test]
fn a_package_is_a_zip_of_the_skill() {
    let world = World::new();
    world.stdout(&["new", "tide-tables"]);
    assert_snapshot!(world.run(&["package", "tide-tables"]).lines().take(2).collect::<Vec<_>>().join("\n"));
    let file = std::fs::File::open(world.path("project/tide-tables.skill")).unwrap();
    let mut archive = zip::ZipArchive::new(file).unwrap();
    let names: Vec<_> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(
        names,
        [
            "tide-tables/SKILL.md",
            "tide-tables/assets/template.md",
            "tide-tables/references/guide.md",
            "tide-tables/scripts/hello.sh",
        ]
    );
    assert_eq!(archive.by_index(3).unwrap().unix_mode().unwrap() & 0o777, 0o755);
    let mode = std::fs::metadata(world.path("project/.prowess/skills/tide-tables/scripts/hello.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);

    assert_snapshot!(world.run(&["package", "tide-tables"]));
    world.stdout(&["package", "./.prowess/skills/tide-tables", "--force"]);
}

#[test]
fn an_invalid_skill_is_not_packed() {
    let world = World::new();
    world.file(
        "project/bad/SKILL.md",
        "---\nname: other\ndescription: Is misnamed. Use for tests.\n---\nBody.\n",
    );
    assert_snapshot!(world.run(&["package", "./bad"]));
    assert!(!world.path("project/other.skill").exists());
}
