//! Case 102: skills that are small on the disk and endless to look at.

use std::os::unix::fs::symlink;
use std::process::Output;

use super::{act, said, world};
use crate::world::World;

/// What a run of a bomb may take before it is refused, in KiB: the program itself takes about 30 MiB.
const MOST: u64 = 96 * 1024;

/// Runs the skill, and says what the program took at most, in KiB.
fn run(world: &World) -> (Output, u64) {
    let run = act(world, &[], "");
    let mut timed = std::process::Command::new("/usr/bin/python3");
    let program = "import resource, subprocess, sys; ended = subprocess.run(sys.argv[1:]); \
                   print('peak', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(ended.returncode)";
    timed.args(["-c", program]).arg(run.get_program()).args(run.get_args()).env_clear();
    timed.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = timed.current_dir(run.get_current_dir().unwrap()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak = text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap();
    (output, peak)
}

/// A skill whose directory has what `plant` puts there is refused with one line, and costs little.
fn refused(plant: impl Fn(&std::path::Path), limit: &str) {
    let world = world("");
    plant(&world.path("home/.prowess/skills/hostile"));
    let (output, peak) = run(&world);
    let text = said(&output);
    assert!(peak < MOST, "it took {peak} KiB");
    assert_eq!(output.status.code(), Some(125), "{} lines", text.lines().count());
    let expected = format!("the skill `hostile` has more than {limit}: too large to stage\n");
    assert!(
        text.contains(&expected) && output.stderr.iter().filter(|byte| **byte == b'\n').count() == 1,
        "{text}"
    );
}

/// A thousand links to a directory with a thousand links.
fn links(skill: &std::path::Path, name: &str, target: &str) {
    std::fs::create_dir(skill.join("d")).unwrap();
    for number in 0..1000 {
        symlink(target, skill.join("d").join(format!("{number}{name}"))).unwrap();
        symlink("d", skill.join(format!("{number}{name}"))).unwrap();
    }
}

#[test]
fn case_102_links_to_links() {
    refused(|skill| links(skill, "", "."), "20000 files, directories and links");
}

#[test]
fn case_102_links_with_long_names_that_lead_nowhere() {
    refused(|skill| links(skill, &"n".repeat(240), "nowhere"), "4194304 bytes of paths");
}

#[test]
fn case_102_directories_in_directories() {
    let plant = |skill: &std::path::Path| {
        // Each leads to the next twice: a thousand million ways.
        for depth in 0..30 {
            let directory = skill.join(format!("d{depth}"));
            std::fs::create_dir(&directory).unwrap();
            for name in ["a", "b"] {
                symlink(format!("../d{}", depth + 1), directory.join(name)).unwrap();
            }
        }
        std::fs::create_dir(skill.join("d30")).unwrap();
    };
    refused(plant, "20000 files, directories and links");
}

#[test]
fn case_102_what_is_left_out_is_counted_and_not_listed() {
    let world = world("print('ran')");
    let skill = world.path("home/.prowess/skills/hostile");
    for number in 0..5000 {
        symlink("/etc/shadow", skill.join(format!("out-{number}"))).unwrap();
    }
    let (output, peak) = run(&world);
    let text = said(&output);
    assert!(output.status.success() && text.contains("ran\n"), "{text}");
    assert!(peak < MOST, "it took {peak} KiB");
    assert_eq!(text.matches("was not staged: the link leads out of the skill").count(), 50, "{text}");
    assert!(text.contains("4950 more of the skill are not staged"), "{text}");
}
