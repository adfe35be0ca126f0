//! The directories of other agents: links, copies, and projects in which one directory is a link to another.

use std::os::unix::fs::symlink;

use super::{Scene, manifest};

#[test]
fn the_directory_of_an_agent_may_be_a_link_to_that_of_another() {
    for (link, target) in [(".claude", ".agents"), (".agents", ".claude"), (".claude", "settings/claude")] {
        let scene = Scene::new();
        let [tide, low] = ["High at noon.", "Low at noon."].map(|body| manifest("tide", body));
        let repository = scene.repository("r", &[("skills/tide/SKILL.md", tide.as_str())]);
        std::fs::create_dir_all(scene.here(target)).unwrap();
        symlink(target, scene.here(link)).unwrap();
        let url = repository.url();
        scene.succeed(&["add", &url, "--yes", "--agent", "*"]);
        let installed = ".agents/skills/tide/SKILL.md";
        repository.commit(&[("skills/tide/SKILL.md", &low)]);
        scene.succeed(&["add", &url, "--yes"]);
        assert_eq!(scene.text(installed), low, "{link} → {target}");
        repository.commit(&[("skills/tide/SKILL.md", &tide)]);
        scene.succeed(&["update", "--yes"]);
        assert_eq!(scene.text(installed), tide, "{link} → {target}");
        scene.succeed(&["verify"]);
        std::fs::remove_dir_all(scene.here(".agents/skills")).unwrap();
        scene.succeed(&["install"]);
        scene.succeed(&["remove", "tide", "--yes"]);
        let left: Vec<String> = scene.state().into_keys().filter(|path| path.contains("tide")).collect();
        assert_eq!(left, [""; 0], "{link} → {target}");
    }
}

#[test]
fn an_agent_whose_directory_leads_elsewhere_gets_nothing() {
    let scene = Scene::new();
    scene.files("local/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    std::fs::create_dir_all(scene.here("settings/claude")).unwrap();
    symlink("settings/claude", scene.here(".claude")).unwrap();
    let args = ["add", "../local", "--yes", "--agent", "claude-code"];
    scene.fail(&args, ".claude is a link that leads out of");
    assert!(!scene.here("settings/claude/skills").exists());
}

#[test]
fn a_directory_without_a_dot_gets_links_only() {
    let scene = Scene::new();
    scene.files("local/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    scene.files("project/skills/own", &[("SKILL.md", &manifest("own", "Of the project."))]);
    scene.files("project/data", &[("tides.csv", "12:00\n")]);
    scene.files("project/agent", &[("main.py", "")]);
    let before = scene.state();
    scene.succeed(&["add", "../local", "--yes", "--agent", "*"]);
    for directory in ["skills", "data/skills", "agent/skills"] {
        assert!(!scene.here(directory).join("tide").exists(), "{directory}");
    }
    scene.succeed(&["remove", "tide", "--yes"]);
    let agents = ["openclaw", "astrbot", "eve"];
    for agent in agents {
        scene.fail(&["add", "../local", "--yes", "--copy", "--agent", agent], "not copies");
        scene.succeed(&["add", "../local", "--yes", "--agent", agent]);
    }
    assert_eq!(scene.text("skills/tide/SKILL.md"), manifest("tide", "High at noon."));
    scene.succeed(&["verify"]);
    let told = scene.succeed(&["remove", "tide", "--yes"]);
    assert!(!told.contains("left alone"), "{told}");
    let mut after = scene.state();
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
    for directory in ["skills", "data/skills", "agent/skills"] {
        assert!(!scene.here(directory).join("tide").is_symlink(), "{directory}");
    }
}
