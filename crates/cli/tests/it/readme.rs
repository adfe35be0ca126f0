//! What the documents tell people to type does what they show.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::document::{Document, documents, top};
use crate::world::{World, subcommands};

/// What a test cannot run, by how it begins, and the target of the Makefile that runs it, where the rest of it has to be
/// found.
const ELSEWHERE: [(&str, &str); 3] =
    [("cargo ", "install-check"), ("apt-get ", "components"), ("sudo apt-get ", "components")];

/// How long all commands of a document may take.
const MOST_SECONDS: &str = "300";

/// Stands between the commands of a document in what their shell prints.
const MARK: char = '\u{1e}';

/// A command, and what is shown below it.
#[derive(Debug, PartialEq)]
struct Shown {
    line: usize,
    command: String,
    output: String,
}

#[test]
fn every_command_of_the_documents_does_what_they_show() {
    let mut wrong = Vec::new();
    for document in documents() {
        let shown = commands(&document).into_iter().filter(|shown| target(&shown.command).is_none());
        let shown: Vec<Shown> = shown.collect();
        for (shown, (told, code)) in shown.iter().zip(run(&shown)) {
            let is_well = match shown.output.as_str() {
                "" => code == "0",
                // What is shown may be a finding, a mistake, or that nothing ran.
                output => matches!(code.as_str(), "0" | "1" | "2" | "125") && fits(output, &told),
            };
            if !is_well {
                let Shown { line, command, output } = shown;
                let path = document.path.display();
                wrong.push(format!(
                    "{path}:{line}: $ {command}\n--- it shows\n{output}\n--- exit {code}, and it printed\n{told}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_readme_has_commands_to_try() {
    let readme = Document::read(Path::new("README.md"));
    let tried = commands(&readme).into_iter().filter(|shown| target(&shown.command).is_none());
    assert!(tried.filter(|shown| !shown.output.is_empty()).count() >= 2);
}

#[test]
fn what_a_test_cannot_run_is_run_by_make_test() {
    let parts = ["Makefile", "cluster.mk"].map(|part| std::fs::read_to_string(top().join(part)).unwrap());
    let makefile = parts.concat();
    let mut made = BTreeSet::new();
    let mut next = vec!["test".to_owned()];
    while let Some(target) = next.pop() {
        if made.insert(target.clone()) {
            next.extend(rule(&makefile, &target).0);
        }
    }
    for document in documents() {
        for Shown { line, command, .. } in commands(&document) {
            let Some((target, rest)) = target(&command) else { continue };
            let at = format!("{}:{line}: $ {command}", document.path.display());
            assert!(made.contains(&target), "{at}: `make test` does not make {target}");
            let (_, recipe) = rule(&makefile, &target);
            for word in rest.split_whitespace().take_while(|word| *word != "#") {
                assert!(recipe.contains(word), "{at}: {target} does it without {word}");
            }
        }
    }
}

#[test]
fn the_table_of_commands_is_whole_and_true() {
    let world = World::new();
    let readme = Document::read(Path::new("README.md"));
    let tables =
        readme.tables.iter().filter(|table| table.heading.first().is_some_and(|one| one == "command"));
    let mut named = BTreeSet::new();
    for row in tables.flat_map(|table| &table.rows) {
        let call = row[0].first().expect("the first cell of the table is a command");
        let words: Vec<&str> = call.split_whitespace().collect();
        let [program, name, rest @ ..] = &words[..] else { panic!("{call} is no command") };
        assert_eq!(*program, "prowess", "{call}");
        named.insert((*name).to_owned());

        // `artifacts list|get` are commands of a command.
        let below = subcommands(&world, &[name]);
        let mut help = world.stdout(&[name, "--help"]);
        for one in &below {
            help += &world.stdout(&[name, one, "--help"]);
        }
        if let (Some(one), false) = (rest.first(), below.is_empty()) {
            assert!(one.split('|').all(|one| below.iter().any(|name| name == one)), "{call}: {below:?}");
        }
        for code in row.iter().flatten() {
            for (flag, values) in flags(code) {
                let is_there =
                    help.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == flag);
                assert!(is_there, "`{call}` has no {flag}");
                assert!(values.iter().all(|value| help.contains(value)), "`{call}`: {flag} of {values:?}");
            }
        }
    }
    let there: BTreeSet<String> = subcommands(&world, &[]).into_iter().collect();
    assert_eq!(named, there, "the README's table and `prowess --help` differ");
}

#[test]
fn what_is_shown_may_leave_out_lines_and_parts_of_them() {
    assert!(fits("a\nb", "a\nb\n"));
    assert!(fits("a\n…\nd", "a\nb\nc\nd"));
    assert!(fits("a\n…\nd", "a\nd"));
    assert!(fits("…\nb\n…\nb", "a\nb\nb\nc\nb"));
    assert!(fits("in [..] ms, at [..]", "in 12 ms, at /x"));
    assert!(!fits("a\nb", "a"));
    assert!(!fits("a", "a\nb"));
    assert!(!fits("a\n…\nd", "a\nb\nc"));
    assert!(!fits("in [..] ms", "in 12 s"));
    assert!(!fits("aa[..]aa", "aaa"));

    let block = "```console\n$ one \\\n>   two\n\nout\n\n$ three # why\n```\n";
    let shown = |line, command: &str, output: &str| Shown {
        line,
        command: command.to_owned(),
        output: output.to_owned(),
    };
    assert_eq!(
        commands(&Document::parse(block)),
        [shown(2, "one \\\n  two", "\nout"), shown(7, "three # why", "")]
    );
}

/// The commands of a document's `console` blocks.
fn commands(document: &Document) -> Vec<Shown> {
    let mut all = Vec::new();
    for block in document.blocks.iter().filter(|block| block.language == "console") {
        let mut commands: Vec<Shown> = Vec::new();
        let mut goes_on = false;
        for (number, text) in block.text.lines().enumerate() {
            if let Some(command) = text.strip_prefix("$ ") {
                let line = block.line + number;
                commands.push(Shown { line, command: command.to_owned(), output: String::new() });
            } else if let Some(last) = commands.last_mut() {
                if goes_on {
                    last.command += "\n";
                    last.command += text.strip_prefix("> ").unwrap_or(text);
                } else {
                    last.output += text;
                    last.output += "\n";
                }
            } else {
                panic!("{}:{}: output without a command", document.path.display(), block.line);
            }
            let is_command = goes_on || text.starts_with("$ ");
            goes_on = is_command && text.ends_with('\\');
        }
        for shown in &mut commands {
            shown.output.truncate(shown.output.trim_end().len());
        }
        all.extend(commands);
    }
    all
}

/// The target of the Makefile that stands for a command which cannot run here, and what has to be in its recipe.
fn target(command: &str) -> Option<(String, &str)> {
    if let Some(target) = command.strip_prefix("make ") {
        return Some((target.split_whitespace().next()?.to_owned(), ""));
    }
    ELSEWHERE.iter().find_map(|(begin, target)| Some(((*target).to_owned(), command.strip_prefix(begin)?)))
}

/// What a target of the Makefile needs, and what is done for it.
fn rule(makefile: &str, target: &str) -> (Vec<String>, String) {
    let mut lines = makefile.lines();
    let needs = lines.find_map(|line| line.strip_prefix(target)?.strip_prefix(':'));
    let needs = needs.unwrap_or_else(|| panic!("the Makefile has no {target}"));
    let recipe = lines.take_while(|line| line.starts_with('\t')).collect::<Vec<_>>().join("\n");
    (needs.split_whitespace().map(str::to_owned).collect(), recipe)
}

/// Runs commands one after another in one shell, as a reader does, in an empty home, where there are copies of the
/// examples. Returns what each printed, and how it ended.
fn run(shown: &[Shown]) -> Vec<(String, String)> {
    if shown.is_empty() {
        return Vec::new();
    }
    let world = World::new();
    copy(&top().join("examples"), &world.path("project/examples"));
    let script: String = shown
        .iter()
        .map(|shown| {
            let quoted = shown.command.replace('\'', r"'\''");
            format!("eval '{quoted}'\nprintf '{MARK}%s{MARK}' $?\n")
        })
        .collect();
    let binaries = Path::new(env!("CARGO_BIN_EXE_prowess")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let output = Command::new("timeout")
        .args([MOST_SECONDS, "bash", "-c", &format!("exec 2>&1\n{script}")])
        .current_dir(world.path("project"))
        .env_clear()
        .env("HOME", world.path("home"))
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts = told.split(MARK);
    let mut ends = Vec::new();
    while let (Some(told), Some(code)) = (parts.next(), parts.next()) {
        ends.push((told.to_owned(), code.to_owned()));
    }
    let last = told.rsplit(MARK).next().unwrap_or_default();
    assert_eq!(ends.len(), shown.len(), "the shell ended in the middle: {}\n{last}", output.status);
    ends
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Whether what was printed is what is shown. A line `…` stands for any lines, `[..]` for any part of one.
fn fits(shown: &str, printed: &str) -> bool {
    let shown: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
    lines_fit(&shown, &printed)
}

fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["…", rest @ ..] => (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..])),
        [first, rest @ ..] => printed
            .split_first()
            .is_some_and(|(line, others)| line_fits(first, line) && lines_fit(rest, others)),
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((begin, rest)) = shown.split_once("[..]") else { return shown == printed };
    let Some(printed) = printed.strip_prefix(begin) else { return false };
    (0..=printed.len()).filter(|&at| printed.is_char_boundary(at)).any(|at| line_fits(rest, &printed[at..]))
}

/// The options in a piece of code, each with the values that stand behind it: `--format json|jsonl`.
fn flags(code: &str) -> Vec<(&str, Vec<&str>)> {
    let words: Vec<&str> = code.split([' ', '[', ']', '=']).filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.starts_with("--") && word.len() > 2 {
            let next = words.get(at + 1).filter(|next| next.contains('|'));
            found.push((*word, next.map(|next| next.split('|').collect()).unwrap_or_default()));
        }
    }
    found
}
