//! Case 100: `run --to` follows no link.

use std::os::unix::fs::symlink;
use std::process::Output;

use super::{act, said, world};
use crate::world::World;

const SCRIPT: &str = r"
import os
os.makedirs('out/sub')
for name in 'plain.txt', 'file.txt', 'sub/inner.txt':
    with open('out/' + name, 'w') as file: file.write('of the skill')
";

/// A world with results to come, and a directory of the user's beside the project.
fn prepared() -> World {
    let world = world(SCRIPT);
    world.file("home/own/file.txt", "the user's").file("home/own/inner.txt", "the user's");
    std::fs::create_dir_all(world.path("project/results/out")).unwrap();
    world
}

fn copied(world: &World, to: &str) -> Output {
    act(world, &["--to", to], "").output().unwrap()
}

fn untouched(world: &World, output: &Output) {
    let own = world.path("home/own");
    for name in ["file.txt", "inner.txt"] {
        assert_eq!(std::fs::read_to_string(own.join(name)).unwrap(), "the user's", "{}", said(output));
    }
    assert_eq!(std::fs::read_dir(own).unwrap().count(), 2, "{}", said(output));
}

#[test]
fn case_100_links_below_the_directory_are_not_followed() {
    let world = prepared();
    let results = world.path("project/results/out");
    symlink(world.path("home/own/file.txt"), results.join("file.txt")).unwrap();
    symlink(world.path("home/own"), results.join("sub")).unwrap();
    let output = copied(&world, "results");
    untouched(&world, &output);
    assert_eq!(std::fs::read_to_string(results.join("plain.txt")).unwrap(), "of the skill");
    let text = said(&output);
    for name in ["file.txt", "sub"] {
        let warning = format!("results/out/{name} is a link, which is not followed\n");
        assert!(text.contains(&warning), "{text}");
    }
    assert!(results.join("file.txt").is_symlink() && results.join("sub").is_symlink());
}

#[test]
fn case_100_nor_is_a_dangling_one() {
    let world = prepared();
    symlink(world.path("home/own/new.txt"), world.path("project/results/out/plain.txt")).unwrap();
    let output = copied(&world, "results");
    untouched(&world, &output);
}

#[test]
fn case_100_the_directory_itself_is_no_link() {
    let world = prepared();
    symlink(world.path("home/own"), world.path("project/linked")).unwrap();
    let absolute = world.path("project/linked").display().to_string();
    for to in ["linked", "linked/", absolute.as_str()] {
        let output = copied(&world, to);
        untouched(&world, &output);
        let text = said(&output);
        assert!(text.contains("is a link, which is not followed: name the directory"), "{text}");
        assert!(!text.contains("exit 0"), "nothing ran: {text}");
    }
    // On the way from the working directory, which may be a stranger's.
    let output = copied(&world, "linked/below");
    untouched(&world, &output);
    assert!(said(&output).contains("linked is a link, which is not followed\n"), "{}", said(&output));
}

#[test]
fn case_100_a_link_on_the_way_is_not_followed_however_the_way_is_spelled() {
    let world = prepared();
    symlink(world.path("home/own"), world.path("project/later")).unwrap();
    let absolute = world.path("project/later/today");
    for to in ["later/today", &absolute.to_string_lossy()] {
        let output = copied(&world, to);
        untouched(&world, &output);
        assert!(said(&output).contains("later is a link, which is not followed"), "{}", said(&output));
    }
}
