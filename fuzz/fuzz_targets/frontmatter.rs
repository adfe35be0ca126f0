//! Any text as frontmatter: parsed, repaired, fixed, and parsed again to the same skill.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prowess_catalog::skill::Location;
use prowess_catalog::Skill;

fuzz_target!(|yaml: &str| {
    let location = Location::new("/skills/tide-tables/SKILL.md");
    let mut source = format!("---\n{yaml}\n---\nBody.\n").into_bytes();
    let parsed = Skill::parse(&source, &location);
    let Some(before) = parsed.skill else { return };
    let mut fixes: Vec<_> = parsed.diagnostics.iter().filter_map(|found| found.fix.as_ref()).collect();
    fixes.sort_by_key(|fix| (fix.start, fix.end));
    // From the last to the first, so that places before a fix stay where they are.
    let mut next = source.len() + 1;
    for fix in fixes.into_iter().rev() {
        if fix.end <= next {
            source.splice(fix.start..fix.end, fix.replacement.bytes());
            next = fix.start;
        }
    }
    let after = Skill::parse(&source, &location).skill.expect("a fixed skill loads");
    assert_eq!((after.name, after.description), (before.name, before.description));
    assert_eq!(after.allowed_tools, before.allowed_tools);
});
