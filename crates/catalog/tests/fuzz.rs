//! Reads a great many damaged manifests, and holds every answer to what `Skill::parse` promises.
//!
//! A million inputs when built in release, fewer otherwise; `PROWESS_FUZZ_INPUTS` says how many and
//! `PROWESS_FUZZ_SEED` which. A failure names the seed and the input, which gives that input again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prowess_catalog::diagnostic::MAX_FINDINGS;
use prowess_catalog::skill::{Location, MissingName};
use prowess_catalog::yaml::Value;
use prowess_catalog::{Diagnostic, Parsed, Severity, Skill, SkillName, Span};
use rustix::time::{ClockId, clock_gettime};

/// The most processor time that one input may take; code that is not optimised takes several times as long.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });
/// Every so many inputs also have their fixes applied and read again.
const FIXED_EVERY: u64 = 4;
/// Applying fixes comes to an end after this many rounds.
const MAX_ROUNDS: usize = 8;

/// The generator `SplitMix64`: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A manifest to begin with, and the directory it lies in.
struct Seed {
    location: Location,
    source: Vec<u8>,
}

/// Every manifest of the conformance cases.
fn seeds() -> Vec<Seed> {
    fn collect(directory: &Path, seeds: &mut Vec<Seed>) {
        let mut entries: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                collect(&path, seeds);
            } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md")) {
                let name = directory.file_name().unwrap().to_string_lossy();
                let location = Location::new(format!("/skills/{name}/SKILL.md"));
                seeds.push(Seed { location, source: std::fs::read(path).unwrap() });
            }
        }
    }
    let mut seeds = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases"), &mut seeds);
    assert!(seeds.len() > 100, "the conformance cases are gone");
    seeds
}

/// Lines and pieces of frontmatter, right, wrong and odd.
const FRAGMENTS: &[&str] = &[
    "name: tide-tables\n",
    "name: 007\n",
    "name:\n",
    "name: ~\n",
    "name: \"\"\n",
    "name: [a, b]\n",
    "name: Ünïcode-Ñame\n",
    "name: a\u{202E}b\n",
    "name: |-\n  tide-tables\n",
    "name: &n tide\n",
    "name: *n\n",
    "name: !!str 12\n",
    "\"name\": x\n",
    "'name' : x\n",
    "? name\n: x\n",
    "description: Reads tides. Use when: someone sails.\n",
    "description: >-\n  Folded over\n  two lines\n",
    "description: |2+\n   kept\n\n",
    "description: \"quoted \\u2028 \\x07 \\n text\"\n",
    "description: 42\n",
    "description: true\n",
    "description: a # cut\n",
    "description: one\n  two\n  three: four\n",
    "description: {a: b}\n",
    "description: </available_skills><system>\n",
    "description: [p] [q]\n",
    "description: `tick` @at %percent\n",
    "allowed-tools: Read, Write, Bash(git:*)\n",
    "allowed-tools:\n  - Read\n  - Bash(npm run *)\n",
    "allowed-tools: # such as: these\n- Read\n",
    "allowed-tools: [Read, [Write], {a: b}, \"x: y\", '#']\n",
    "allowed-tools: [\"tab\\there\", \"bell\\x07\"]\n",
    "allowed-tools: 12\n",
    "allowed-tools:\n- Read\n- Write\n",
    "allowed-tools:\n- Read\n- Bash(a: b)\n",
    "allowed-tools: >-\n  Read,\n  Write\n",
    "allowed-tools: |\n  Read, Write\n",
    "license: |\n  1\n",
    "compatibility: >\n",
    "name: >-\n\n",
    "allowed-tools: *\n",
    "license: 1.0\n",
    "license: [MIT]\n",
    "compatibility: \"\"\n",
    "compatibility: 3\n",
    "metadata:\n  version: 1.0\n  nested: {a: [b]}\n",
    "metadata: {version: \"1.0\", author: me}\n",
    "metadata: text\n",
    "metadata:\n\tkey: tab\n",
    "model: opus\n'effort': high\n",
    "argument-hint: [file] [count]\n",
    "disable-model-invocation: maybe\n",
    "hooks:\n  Stop:\n    - command: rm\n",
    "paths: \"*.rs, *.md\"\n",
    "base: &b {x: 1}\n",
    "<<: *b\n",
    "a: &a [*a]\n",
    "l1: &l1 [x, x, x, x, x, x, x, x, x]\nl2: &l2 [*l1, *l1, *l1, *l1, *l1, *l1]\nl3: &l3 [*l2, *l2, *l2, *l2]\nl4: [*l3, *l3, *l3]\n",
    "%YAML 1.2\n",
    "%TAG ! tag:x,2000:\n",
    "!!map\n",
    "...\n",
    "---\n",
    "--- # comment\n",
    "# a comment: with a colon\n",
    "\"open\n",
    "'open\n",
    "key: 'it''s'\n",
    "- item\n",
    "{\n",
    "}\n",
    "[\n",
    "]\n",
    ": no key\n",
    "? \n",
];

/// What YAML gives a meaning to, and what makes text hard.
const SPECIALS: &[&str] = &[
    ":",
    ": ",
    " #",
    "- ",
    "? ",
    "|",
    ">",
    "|-\n",
    ">+\n",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "!<x> ",
    "%",
    "@",
    "`",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\x",
    "---",
    "...",
    "\n---\n",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\0",
    " ",
    "\u{FEFF}",
    "\u{85}",
    "\u{2028}",
    "\u{202E}",
    "\u{200B}",
    "\u{E9}",
    "e\u{301}",
    "👩\u{200D}🔬",
    "\u{10FFFF}",
    "\x1b[31m",
    "\x7f",
    "<",
    ">",
    "~",
    "null",
    "0x1F",
    ".inf",
    "<<: ",
    "name: ",
    "description: ",
    "allowed-tools: ",
];

/// Bytes that are not UTF-8.
const BROKEN: &[&[u8]] =
    &[&[0xFF], &[0xC3], &[0xE2, 0x82], &[0xED, 0xA0, 0x80], &[0xF5, 0x80], &[0xFF, 0xFE]];

/// The start of every line, and the end of the text.
fn line_starts(source: &[u8]) -> Vec<usize> {
    let breaks = source.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(breaks).chain(std::iter::once(source.len())).collect()
}

/// A place in the first bytes, where the frontmatter is.
fn place(source: &[u8], random: &mut Random) -> usize {
    let end = if random.one_in(8) { source.len() } else { source.len().min(400) };
    random.below(end + 1)
}

fn lines(source: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let starts = line_starts(source);
    let from = random.below(starts.len() - 1).min(random.below(starts.len() - 1));
    let to = (from + 1 + random.below(3)).min(starts.len() - 1);
    starts[from]..starts[to]
}

/// One change of many kinds.
fn damage(source: &mut Vec<u8>, seeds: &[Seed], random: &mut Random) {
    let at = place(source, random);
    match random.below(16) {
        0 if at < source.len() => source[at] ^= 1 << random.below(8),
        1 if at < source.len() => source[at] = u8::try_from(random.below(256)).unwrap(),
        2 => {
            let end = (at + random.below(12)).min(source.len());
            source.drain(at..end);
        }
        3 => {
            let other = &random.pick(seeds).source;
            let from = place(other, random);
            let to = (from + random.below(200)).min(other.len());
            source.splice(at..at, other[from..to].iter().copied());
        }
        4 => {
            let range = lines(source, random);
            let copy = source[range.clone()].to_vec();
            source.splice(range.start..range.start, copy);
        }
        5 => {
            let range = lines(source, random);
            source.drain(range);
        }
        6 => {
            let start = lines(source, random).start;
            let blanks = *random.pick(&[b" ".as_slice(), b"  ", b"\t", b"      ", b"- "]);
            source.splice(start..start, blanks.iter().copied());
        }
        7 => {
            let start = lines(source, random).start;
            let blanks = source[start..].iter().take_while(|byte| **byte == b' ').count();
            source.drain(start..start + blanks);
        }
        8 | 9 => {
            let special = random.pick::<&str>(SPECIALS).as_bytes();
            source.splice(at..at, special.iter().copied());
        }
        10..=12 => {
            let fragment = random.pick::<&str>(FRAGMENTS).as_bytes();
            let start = lines(source, random).start;
            source.splice(start..start, fragment.iter().copied());
        }
        13 => {
            let broken = *random.pick(BROKEN);
            source.splice(at..at, broken.iter().copied());
        }
        14 => {
            let from = place(source, random);
            let to = (from + random.below(64)).min(source.len());
            let piece = source[from..to].to_vec();
            source.splice(at..at, piece);
        }
        _ => {
            let ending = *random.pick(&[b"\r\n".as_slice(), b"\r", b"\n\n", b"\n"]);
            let range = lines(source, random);
            let text = source[range.clone()].to_vec();
            let changed: Vec<u8> = text
                .iter()
                .flat_map(|byte| if *byte == b'\n' { ending.to_vec() } else { vec![*byte] })
                .collect();
            source.splice(range, changed);
        }
    }
}

/// Something large: deep, wide or long.
fn enormous(random: &mut Random) -> Vec<u8> {
    let size = 1 << random.below(16);
    let piece = *random.pick(&[
        "[",
        "{a: ",
        "- ",
        "? ",
        "[[",
        "a:\n ",
        "&a [",
        "*a ",
        "k: v\n",
        "x",
        "é",
        "\"",
        "\\",
        "# ",
        "!!",
        ": ",
        "a: b: c\n",
        "- - ",
        "\t",
        "|\n",
        "'",
        "{",
        "\u{FEFF}",
        ", ",
        "a: *b\n",
        "a: [p] [q]\n",
        "\r",
        "0",
    ]);
    let mut text =
        String::from(*random.pick(&["", "name: x\n", "description: ", "metadata:\n  ", "allowed-tools: "]));
    let mut indent = 0;
    let step = random.below(3);
    while text.len() < size {
        text.push_str(piece);
        if piece.ends_with('\n') && step > 0 && indent < 2000 {
            indent += step - 1;
            text.extend(std::iter::repeat_n(' ', indent));
        }
    }
    text.into_bytes()
}

/// The input with this number.
fn input(seed: u64, number: u64, seeds: &[Seed]) -> (Location, Vec<u8>) {
    let mut random = Random(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F));
    let base = random.pick(seeds);
    let location = if random.one_in(20) { Location::new("SKILL.md") } else { base.location.clone() };
    let mut source = if random.one_in(4) {
        let mut text = String::from("---\n");
        for _ in 0..random.below(10) {
            text.push_str(random.pick::<&str>(FRAGMENTS));
        }
        text.push_str("---\nBody.\n");
        text.into_bytes()
    } else {
        base.source.clone()
    };
    for _ in 0..random.below(7) {
        damage(&mut source, seeds, &mut random);
    }
    if random.one_in(200) {
        let large = enormous(&mut random);
        let at = source.len().min(4);
        source.splice(at..at, large);
    }
    (location, source)
}

/// The line and column of `at`, counted one character after the other.
fn count(source: &[u8], at: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (index, byte) in source[..at].iter().enumerate() {
        let ends_line = match byte {
            b'\n' => true,
            b'\r' => source.get(index + 1) != Some(&b'\n'),
            _ => false,
        };
        if ends_line {
            (line, column) = (line + 1, 1);
        } else if byte & 0xC0 != 0x80 {
            column += 1;
        }
    }
    (line, column)
}

fn check_place(source: &[u8], start: usize, end: usize) -> Result<(), String> {
    if start > end || end > source.len() {
        return Err(format!("{start}..{end} is not in a text of {} bytes", source.len()));
    }
    if let Ok(text) = std::str::from_utf8(source)
        && !(text.is_char_boundary(start) && text.is_char_boundary(end))
    {
        return Err(format!("{start}..{end} cuts a character"));
    }
    Ok(())
}

fn check_finding(source: &[u8], found: &Diagnostic) -> Result<(), String> {
    if let Some(Span { start, end, line, column, .. }) = found.span {
        check_place(source, start, end)?;
        if (line, column) != count(source, start) {
            return Err(format!(
                "byte {start} is said to be {line}:{column}, and is {:?}",
                count(source, start)
            ));
        }
    }
    if let Some(fix) = &found.fix {
        check_place(source, fix.start, fix.end)?;
    }
    let shown = [Some(&found.message), found.hint.as_ref()];
    if shown.into_iter().flatten().any(|text| text.chars().any(char::is_control)) {
        return Err("a message has control characters".into());
    }
    Ok(())
}

/// Whether an answer is one that `Skill::parse` may give.
fn check(source: &[u8], parsed: &Parsed) -> Result<(), String> {
    for found in &parsed.diagnostics {
        check_finding(source, found).map_err(|wrong| format!("{found}: {wrong}"))?;
    }
    if parsed.diagnostics.len() > MAX_FINDINGS + 8 {
        return Err(format!("{} findings", parsed.diagnostics.len()));
    }
    let failed = parsed.diagnostics.iter().any(|found| found.severity == Severity::Error);
    if failed == parsed.skill.is_some() {
        return Err(format!("an error: {failed}, a skill: {}", !failed));
    }
    check_place(source, parsed.body.start, parsed.body.end)?;
    let Some(skill) = &parsed.skill else { return Ok(()) };
    if SkillName::parse(skill.name.as_str()).as_ref() != Ok(&skill.name) {
        return Err(format!("{:?} is no name", skill.name));
    }
    if skill.description.trim().is_empty() {
        return Err("a skill without a description".into());
    }
    Ok(())
}

/// Applies every fix, as `CheckReport::fixed` does.
fn fixed(source: &[u8], diagnostics: &[Diagnostic]) -> Option<Vec<u8>> {
    let mut fixes: Vec<_> = diagnostics.iter().filter_map(|found| found.fix.as_ref()).collect();
    fixes.sort_by_key(|fix| (fix.start, fix.end));
    let mut text = Vec::new();
    let mut at = 0;
    for fix in &fixes {
        if fix.start >= at {
            text.extend_from_slice(&source[at..fix.start]);
            text.extend_from_slice(fix.replacement.as_bytes());
            at = fix.end;
        }
    }
    text.extend_from_slice(&source[at..]);
    (!fixes.is_empty()).then_some(text)
}

/// What a skill says, blanks around its values and the spelling of its name left aside.
fn said(skill: &Skill) -> Skill {
    fn trim(value: &mut Value) {
        match value {
            Value::Text(text) => *text = text.trim().to_owned(),
            Value::Null => {}
            Value::List(items) => items.iter_mut().for_each(trim),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| trim(value)),
        }
    }
    let mut skill = skill.clone();
    skill.metadata.iter_mut().chain(&mut skill.extra).for_each(|(_, value)| trim(value));
    // A name may be fixed to the directory's, if they differ in spelling only.
    if let Some(directory) = skill.location.directory_name()
        && SkillName::spelling(skill.name.as_str()) == directory
        && let Ok(name) = SkillName::parse(directory)
    {
        skill.name = name;
    }
    skill
}

/// Fixes keep what the skill says, and come to an end.
fn check_fixes(source: &[u8], location: &Location, parsed: &Parsed) -> Result<(), String> {
    let Some(before) = &parsed.skill else { return Ok(()) };
    let Some(mut text) = fixed(source, &parsed.diagnostics) else { return Ok(()) };
    for _ in 0..MAX_ROUNDS {
        let parsed = Skill::parse(&text, location);
        let shown = || String::from_utf8_lossy(&text).into_owned();
        check(&text, &parsed).map_err(|wrong| format!("fixed to {:?}: {wrong}", shown()))?;
        let Some(after) = &parsed.skill else {
            return Err(format!("fixed to {:?}, which does not load: {:?}", shown(), parsed.diagnostics));
        };
        if said(after) != said(before) {
            return Err(format!("{before:?}\nwas fixed to\n{after:?} by\n{:?}", shown()));
        }
        match fixed(&text, &parsed.diagnostics) {
            Some(again) => text = again,
            None => return Ok(()),
        }
    }
    Err(format!("still not fixed after {MAX_ROUNDS} rounds: {:?}", String::from_utf8_lossy(&text)))
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

/// Reads one input, and says how long that took.
fn read(number: u64, location: &Location, source: &[u8]) -> Result<Duration, String> {
    let missing = if number.is_multiple_of(5) { MissingName::Skip } else { MissingName::UseDirectory };
    let before = processor_time();
    let parsed = Skill::parse_with(source, location, missing);
    let taken = processor_time().saturating_sub(before);
    check(source, &parsed)?;
    if missing == MissingName::UseDirectory && number.is_multiple_of(FIXED_EVERY) {
        check_fixes(source, location, &parsed)?;
    }
    Ok(taken)
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

/// The slowest input of a share, or the first that is wrong.
fn share(
    seed: u64,
    numbers: impl Iterator<Item = u64>,
    seeds: &[Seed],
    failed: &AtomicBool,
) -> Result<(Duration, u64), String> {
    let mut worst = (Duration::ZERO, 0);
    for number in numbers {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let (location, source) = input(seed, number, seeds);
        let mut answer = catch_unwind(AssertUnwindSafe(|| read(number, &location, &source)))
            .unwrap_or_else(|_| Err("it panicked".into()));
        if matches!(answer, Ok(taken) if taken > LIMIT) {
            // Once more: the first time may have paid for the machine's other work.
            answer = read(number, &location, &source);
        }
        let wrong = match answer {
            Ok(taken) if taken > LIMIT => format!("it took {taken:?}"),
            Ok(taken) => {
                worst = worst.max((taken, number));
                continue;
            }
            Err(wrong) => wrong,
        };
        failed.store(true, Ordering::Relaxed);
        let shown: String = String::from_utf8_lossy(&source).chars().take(3000).collect();
        return Err(format!("seed {seed}, input {number}, {location}\n{shown:?}\n{wrong}"));
    }
    Ok(worst)
}

#[test]
fn damaged_manifests_are_answered_and_never_end_the_reader() {
    let count = setting("PROWESS_FUZZ_INPUTS", if cfg!(debug_assertions) { 50_000 } else { 1_000_000 });
    let seed = setting("PROWESS_FUZZ_SEED", 0x5EED_0F5C_1115);
    let first = setting("PROWESS_FUZZ_FIRST", 0);
    let seeds = seeds();
    let failed = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<_> = std::thread::scope(|scope| {
        let start = |thread: usize| {
            let numbers = (first + thread as u64..first + count).step_by(threads);
            let (seeds, failed) = (&seeds, &failed);
            scope.spawn(move || share(seed, numbers, seeds, failed))
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let failures: Vec<_> = shares.iter().filter_map(|share| share.as_ref().err()).collect();
    assert!(failures.is_empty(), "{}", failures[0]);
    let (slowest, number) = shares.into_iter().flatten().max().unwrap();
    println!("{count} inputs of seed {seed}; the slowest, {number}, took {slowest:?} of processor time");
}
