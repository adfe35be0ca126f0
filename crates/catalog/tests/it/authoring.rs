//! What an author uses: checks, fixes, packages, search and the list of a skill's files.

use std::io::{Cursor, Read as _};
use std::path::Path;

use prowess_catalog::check::{CheckReport, Profile, check_directory};
use prowess_catalog::diagnostic::CodeClass;
use prowess_catalog::package::{PackageError, package};
use prowess_catalog::resource::{MAX_RESOURCES, ResourceKind};
use prowess_catalog::skill::Location;
use prowess_catalog::{Code, Diagnostic, ScanOptions, Severity, Skill, check};

use crate::tree::{Tree, manifest, without_rights};

/// Checks `path`: which directories were looked at, whether they are valid, and why not.
fn checked(path: &Path, profile: Profile) -> std::io::Result<Vec<String>> {
    let mut reports = Vec::new();
    check(path, profile, &ScanOptions::default(), &mut |report| reports.push(report))?;
    let shown = |report: &CheckReport| {
        let codes: Vec<String> = [CodeClass::Breach, CodeClass::Discovery]
            .into_iter()
            .flat_map(|class| report.codes(class))
            .map(|code| format!(" {code}"))
            .collect();
        let verdict = if report.is_valid() { "valid" } else { "invalid" };
        format!("{} {verdict}{}", report.id, codes.concat())
    };
    Ok(reports.iter().map(shown).collect())
}

fn spec(path: &Path) -> Vec<String> {
    checked(path, Profile::Spec).unwrap()
}

#[test]
fn a_directory_its_manifest_and_a_tree_are_checked_alike() {
    let tree = Tree::new().skill("one").named("group/two", "other").directory("empty");
    let shown = |path: &str| tree.join(path).to_str().unwrap().to_owned();
    assert_eq!(spec(&tree.join("one")), [format!("{} valid", shown("one"))]);
    assert_eq!(spec(&tree.join("one/SKILL.md")), [format!("{} valid", shown("one/SKILL.md"))]);
    let all =
        [format!("{} invalid name-dir-mismatch", shown("group/two")), format!("{} valid", shown("one"))];
    assert_eq!(spec(tree.path()), all);
    assert_eq!(spec(&tree.join("")), all);
    assert_eq!(spec(&tree.join("empty")), [format!("{} invalid missing-skill-md", shown("empty"))]);
    let dotted = |path: &str| spec(&tree.join(path)).iter().all(|line| line.ends_with(" valid"));
    assert!(dotted("one/.") && dotted("one/../one") && dotted("group/../one/SKILL.md"));
}

#[test]
fn a_path_of_dots_is_checked_under_its_own_name() {
    let tree = Tree::new().skill("one").directory("one/scripts");
    let inside = |path: &str| check_directory(&tree.join(path), path, Profile::Spec);
    assert!(inside("one/scripts/..").is_valid());
    assert!(inside("one/.").is_valid());
    let report = inside("one/scripts/..");
    assert_eq!(report.skill.unwrap().name.as_str(), "one");
}

#[test]
fn what_is_not_there_or_not_a_skill_is_an_error() {
    let tree =
        Tree::new().file("README.md", "x").file("lower/skill.md", manifest("lower", "In the wrong case."));
    assert_eq!(checked(&tree.join("gone"), Profile::Spec).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let error = checked(&tree.join("README.md"), Profile::Spec).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    for path in ["lower", "lower/skill.md", ""] {
        let [line] = &spec(&tree.join(path))[..] else { panic!("{path}") };
        assert!(line.ends_with("invalid file-name-case"), "{line}");
    }
    let sealed = Tree::new().skill("sealed");
    sealed.chmod("sealed/SKILL.md", 0o000);
    let [line] = &without_rights(|| spec(&sealed.join("sealed")))[..] else { panic!() };
    assert!(line.ends_with("invalid unreadable"), "{line}");
}

#[test]
fn profiles_differ_in_fields_names_and_brackets() {
    let fields = "model: opus\n'effort': high\n\"agent\": scout\n";
    let document = |name: &str, description: &str, fields: &str| {
        format!("---\nname: {name}\ndescription: {description}\n{fields}---\nSteps.\n")
    };
    let tree = Tree::new()
        .file("extended/SKILL.md", document("extended", "Uses the fields of other clients.", fields))
        .file("unknown/SKILL.md", document("unknown", "Uses a field that nobody knows.", "colour: red\n"))
        .file("claude-helper/SKILL.md", document("claude-helper", "Helps with what is at hand.", ""))
        .file("навык/SKILL.md", document("навык", "Speaks in another script, honestly.", ""))
        .file("brackets/SKILL.md", document("brackets", "Turns <a> into <b> for you.", ""));
    let valid = |profile| -> Vec<String> {
        let lines = checked(tree.path(), profile).unwrap().into_iter();
        let named =
            lines.filter_map(|line| Some(line.strip_suffix(" valid")?.rsplit('/').next()?.to_owned()));
        named.collect()
    };
    assert_eq!(valid(Profile::Spec), ["brackets", "claude-helper", "навык"]);
    assert_eq!(valid(Profile::Claude), ["extended"]);
    assert_eq!(valid(Profile::Prowess), ["brackets", "claude-helper", "extended", "навык"]);
}

/// Applies fixes until none is offered, and returns how many rounds that took.
fn fix(directory: &Path) -> (CheckReport, usize) {
    for round in 0.. {
        let report = check_directory(directory, "fixed", Profile::Spec);
        let Some((text, _)) = report.fixed() else { return (report, round) };
        assert!(round < 5, "it is never fixed: {}", String::from_utf8_lossy(&text));
        std::fs::write(&report.file, text).unwrap();
    }
    unreachable!()
}

#[test]
fn every_fixable_conformance_case_becomes_valid_and_loses_nothing() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases");
    let mut fixed = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for case in entries {
        let directories = std::fs::read_dir(&case).unwrap().map(|entry| entry.unwrap().path());
        let directory = directories.into_iter().find(|path| path.is_dir()).unwrap();
        let before = check_directory(&directory, "case", Profile::Spec);
        if before.fixed().is_none() {
            continue;
        }
        let fixable = |found: &Diagnostic| found.fix.is_some() || !Profile::Spec.rejects(found.code);
        let all_fixable = before.diagnostics.iter().all(fixable);

        let tree = Tree::new();
        let copy = directory.file_name().unwrap().to_str().unwrap();
        tree.write(&format!("{copy}/SKILL.md"), &before.source);
        let (after, rounds) = fix(&tree.join(copy));
        let id = case.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(!all_fixable || after.is_valid(), "{id}: {:?}", after.diagnostics);
        assert!(after.diagnostics.iter().all(|found| found.fix.is_none()));
        let (Some(old), Some(new)) = (before.skill, after.skill) else {
            fixed.push(format!("{id} does not load"));
            continue;
        };
        assert_eq!(
            (
                &old.name,
                &old.description,
                &old.allowed_tools,
                &old.license,
                &old.compatibility,
                &old.metadata
            ),
            (
                &new.name,
                &new.description,
                &new.allowed_tools,
                &new.license,
                &new.compatibility,
                &new.metadata
            ),
            "{id}"
        );
        assert_eq!((old.extensions, old.extra), (new.extensions, new.extra), "{id}");
        let verdict = if all_fixable { "valid" } else { "better" };
        fixed.push(format!("{id} {verdict} after {rounds}"));
    }
    insta::assert_snapshot!(fixed.join("\n"), @r#"
    095-name-int valid after 1
    100-desc-int valid after 1
    111-tools-comma valid after 1
    113-tools-comma-scoped valid after 1
    116-tools-flow-list valid after 1
    117-tools-block-list valid after 1
    121-tools-star-bare valid after 1
    128-bom valid after 1
    130-colon valid after 1
    132-colon-at-end valid after 1
    134-colon-merged-lines valid after 1
    136-colon-plus-flow-metadata better after 1
    138-colon-in-other-field better after 1
    139-two-bracket-groups better after 1
    141-at-sign-in-flow-list better after 1
    143-backtick-start valid after 1
    145-star-start valid after 1
    177-name-missing valid after 1
    179-name-null valid after 1
    181-both-missing does not load
    182-capitalised-keys does not load
    "#);
}

#[test]
fn fixes_leave_comments_anchors_and_neighbours_alone() {
    let fixed = |frontmatter: &str| {
        let tree = Tree::new().file("tides/SKILL.md", format!("---\n{frontmatter}---\nSteps.\n"));
        let (report, _) = fix(&tree.join("tides"));
        let text = String::from_utf8(report.source).unwrap();
        text.strip_prefix("---\n").unwrap().strip_suffix("---\nSteps.\n").unwrap().to_owned()
    };
    let rest = "description: Reads tides. Use it.\n";
    let same = |frontmatter: &str| assert_eq!(fixed(frontmatter), frontmatter);
    same(&format!("{{name: tides, {}}}\n", "description: Reads tides for sailors"));
    same("{description: Reads tides for sailors}\n");
    same("  description: Reads tides for sailors\n");
    same(&format!("name: tides\n{rest}allowed-tools: # such as: these\n  - Read\n"));
    same(&format!("name: tides\n{rest}allowed-tools: &t [Read]\nother: *t\n"));
    same(&format!("name: tides\n{rest}allowed-tools: >-\n  Read,\n  Write\nlicense: MIT\n"));
    same(&format!("name: tides\n{rest}allowed-tools:\n- Read\n- Bash(a: b)\n"));
    same(&format!("name: tides\n{rest}allowed-tools:\n- Read, Write\n"));
    same(&format!("name: tides\n{rest}allowed-tools: [\"Azure MCP/documentation\", Read]\n"));
    assert_eq!(
        fixed(&format!("name: tides\n{rest}allowed-tools: [\"Bash(git add *)\", Read]\n")),
        format!("name: tides\n{rest}allowed-tools: \"Bash(git add *) Read\"\n")
    );
    assert_eq!(fixed(&format!("# who: me\n{rest}")), format!("name: tides\n# who: me\n{rest}"));
    assert_eq!(
        fixed(&format!("name: tides\n{rest}allowed-tools:\n- Read\n- Bash(a:b)\nlicense: 1\n")),
        format!("name: tides\n{rest}allowed-tools: \"Read Bash(a:b)\"\nlicense: \"1\"\n")
    );
    assert_eq!(fixed(&format!("name:\n{rest}")), format!("name: tides\n{rest}"));
}

#[test]
fn an_item_of_a_list_is_one_tool_whatever_is_in_it() {
    let parsed = |value: &str| {
        let source =
            format!("---\nname: tides\ndescription: Reads tides. Use it.\nallowed-tools: {value}\n---\n");
        let parsed = Skill::parse(source.as_bytes(), &Location::new("/skills/tides/SKILL.md"));
        let told: Vec<_> =
            parsed.diagnostics.iter().filter(|found| found.code.as_str().starts_with("allowed")).collect();
        let told =
            told.iter().map(|found| format!("{} {}", found.code, found.hint.as_deref().unwrap_or("-")));
        (parsed.skill.unwrap().allowed_tools, told.collect::<Vec<_>>())
    };
    let listed = "allowed-tools-not-string write one line of text, with spaces between the tools";
    let odd = "allowed-tools-not-string one item is one tool, with its spaces and commas; \
               give each tool its own item, or write one line of text";
    for (value, tools, finding) in [
        (r#"["Bash(git add *)", "Read"]"#, &["Bash(git add *)", "Read"][..], listed),
        (r#"["Azure MCP/documentation", Read]"#, &["Azure MCP/documentation", "Read"], odd),
        ("\n- Read, Write\n- ' Bash(a, b) '\n- ''", &["Read, Write", "Bash(a, b)"], odd),
        ("\n- Bash(git\n- x)", &["Bash(git", "x)"], odd),
    ] {
        assert_eq!(
            parsed(value),
            (tools.iter().map(ToString::to_string).collect(), vec![finding.to_owned()]),
            "{value}"
        );
    }
    // Text is taken apart.
    assert_eq!(parsed("Azure MCP/documentation Read").0, ["Azure", "MCP/documentation", "Read"]);
}

#[test]
fn references_to_files_that_are_not_there_are_told_with_their_place() {
    let body = "Read [notes](references/notes.md), run `scripts/run.py` and `scripts/gone.py`.\n\
                See [away](../other/SKILL.md), [abs](/etc/passwd), [web](https://example.com/x.md) \
                and [there](assets/).\nAgain [gone](references/gone.md#part).\n";
    let tree = Tree::new()
        .file("tides/SKILL.md", manifest("tides", "Reads tides. Use it at sea.") + body)
        .file("tides/references/notes.md", "Notes.")
        .file("tides/scripts/run.py", "print()")
        .file("tides/assets/chart.png", "x");
    let report = check_directory(&tree.join("tides"), "tides", Profile::Spec);
    assert!(report.is_valid());
    let shown: Vec<String> = report
        .diagnostics
        .iter()
        .map(|found| {
            let span = found.span.as_ref().unwrap();
            let text = std::str::from_utf8(&report.source[span.start..span.end]).unwrap();
            format!("{} {}:{} {text}: {}", found.code, span.line, span.column, found.message)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    broken-reference 6:62 scripts/gone.py: the skill has no file `scripts/gone.py`
    broken-reference 7:12 ../other/SKILL.md: `../other/SKILL.md` leads out of the skill
    broken-reference 7:38 /etc/passwd: `/etc/passwd` leads out of the skill
    broken-reference 8:14 references/gone.md: the skill has no file `references/gone.md`
    "#);
}

fn archive(tree: &Tree, path: &str) -> Result<(prowess_catalog::package::Packaged, Vec<u8>), PackageError> {
    let mut bytes = Cursor::new(Vec::new());
    let packaged = package(&tree.join(path), Profile::Spec, &mut bytes)?;
    Ok((packaged, bytes.into_inner()))
}

fn packable() -> Tree {
    let tree = Tree::new()
        .skill("tides")
        .file("tides/scripts/run.sh", "#!/bin/sh\necho tides\n")
        .file("tides/references/deep/er/notes.md", "é".repeat(5000))
        .file("tides/LICENSE", "MIT")
        .file("tides/empty.txt", "")
        .file("tides/__pycache__/x.pyc", "x")
        .file("tides/scripts/y.pyc", "y")
        .file("tides/node_modules/z/index.js", "z")
        .file("tides/evals/evals.json", "{}")
        .file("tides/references/evals/kept.json", "{}")
        .link("tides/secret", "/etc/passwd")
        .link("tides/scripts/outside", "../..");
    tree.chmod("tides/scripts/run.sh", 0o755);
    tree
}

#[test]
fn a_package_unpacks_to_the_same_files() {
    let tree = packable();
    let (packaged, bytes) = archive(&tree, "tides").unwrap();
    let files = [
        "LICENSE",
        "SKILL.md",
        "empty.txt",
        "references/deep/er/notes.md",
        "references/evals/kept.json",
        "scripts/run.sh",
    ];
    assert_eq!((packaged.name.as_str(), &packaged.files[..]), ("tides", &files.map(String::from)[..]));
    assert_eq!(
        packaged.left_out,
        [
            "__pycache__ (not part of a skill)",
            "evals (not part of a skill)",
            "node_modules (not part of a skill)",
            "scripts/outside (a link)",
            "scripts/y.pyc (not part of a skill)",
            "secret (a link)",
        ]
    );
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    assert_eq!(zip.len(), files.len());
    let mut total = 0;
    for path in files {
        let mut entry = zip.by_name(&format!("tides/{path}")).unwrap();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        assert_eq!(contents, std::fs::read(tree.join("tides").join(path)).unwrap(), "{path}");
        let executable = entry.unix_mode().unwrap() & 0o111 != 0;
        assert_eq!(executable, path == "scripts/run.sh", "{path}");
        total += contents.len() as u64;
    }
    assert_eq!(packaged.bytes, total);
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let first = archive(&packable(), "tides").unwrap().1;
    let other = packable();
    // Rewritten later, in another order.
    other.write("tides/LICENSE", "MIT");
    other.write("tides/SKILL.md", std::fs::read(other.join("tides/SKILL.md")).unwrap());
    assert!(archive(&other, "tides").unwrap().1 == first);
}

#[test]
fn an_invalid_skill_is_not_packed() {
    let tree = Tree::new().named("tides", "other").directory("empty");
    let error = archive(&tree, "tides").unwrap_err();
    assert_eq!(error.report().unwrap().codes(CodeClass::Breach), [Code::NameDirMismatch]);
    let shown = error.to_string().replace(tree.path().to_str().unwrap(), "");
    assert_eq!(
        shown,
        "/tides is not a valid skill: the name `other` is not the directory's name `tides` [name-dir-mismatch]"
    );
    assert!(matches!(archive(&tree, "empty"), Err(PackageError::Invalid(_))));
    assert!(matches!(archive(&tree, "gone"), Err(PackageError::Io(_))));
}

#[test]
fn search_ranks_names_above_descriptions_and_rare_words_above_common_ones() {
    let skill = |name: &str, description: &str| (format!("{name}/SKILL.md"), manifest(name, description));
    let tree = [
        skill("csv-report", "Turns tables into a summary. Use for spreadsheets."),
        skill("tide-tables", "Looks up tides in tables. Use when someone sails."),
        skill("knots", "Ties ropes. Use for a report about csv once in a while, among many other things."),
        skill("sail-repair", "Mends sails. Use when a sail is torn."),
    ]
    .into_iter()
    .fold(Tree::new(), |tree, (path, text)| tree.file(&path, text));
    let view = tree.discover().view_all();
    let found = |query: &str| -> Vec<String> {
        view.search(query).iter().map(|hit| hit.entry.skill.name.to_string()).collect()
    };
    assert_eq!(found("csv reports"), ["csv-report", "knots"]);
    assert_eq!(found("sail"), ["sail-repair", "tide-tables"]);
    assert_eq!(found("TIDE"), ["tide-tables"]);
    assert_eq!(found("spread"), ["csv-report"]);
    assert_eq!(found("nothing-of-the-kind, ?!"), Vec::<String>::new());
    assert_eq!(found(""), Vec::<String>::new());
    assert_eq!(found("use when it"), ["sail-repair", "tide-tables", "csv-report", "knots"]);
    let scores: Vec<f64> = view.search("use when sails tables").iter().map(|hit| hit.score).collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
}

#[test]
fn resources_are_listed_to_the_depth_asked_for() {
    let tree = Tree::new()
        .skill("tides")
        .file("tides/README.md", "12345")
        .file("tides/scripts/a.py", "1")
        .file("tides/scripts/lib/b.py", "22")
        .file("tides/scripts/lib/deep/c.py", "333")
        .file("tides/assets/chart.png", "4444")
        .file("tides/other/ignored.txt", "x")
        .link("tides/references/link.md", "../README.md")
        .link("tides/secret", "/etc/passwd");
    let catalog = tree.discover();
    let listed = |depth| -> Vec<String> {
        let resources = catalog.get("tides").unwrap().resources_with_sizes(depth);
        assert!(!resources.capped && resources.diagnostics.is_empty());
        resources
            .files
            .iter()
            .map(|file| format!("{} {} {}", file.kind.as_str(), file.path, file.size.unwrap()))
            .collect()
    };
    let shallow = ["other README.md 5", "asset assets/chart.png 4", "script scripts/a.py 1"];
    assert_eq!(listed(1), shallow);
    assert_eq!(listed(2), [&shallow[..], &["script scripts/lib/b.py 2"]].concat());
    assert_eq!(listed(3).len(), 5);
}

#[test]
fn a_directory_that_cannot_be_listed_is_skipped_alone() {
    let tree = Tree::new().skill("tides").file("tides/scripts/a.py", "1").file("tides/assets/b.png", "2");
    tree.chmod("tides/scripts", 0o000);
    let catalog = tree.discover();
    let resources = without_rights(|| catalog.get("tides").unwrap().resources(1));
    tree.chmod("tides/scripts", 0o755);
    assert_eq!(resources.counts().0.into_iter().collect::<Vec<_>>(), [(ResourceKind::Asset, 1)]);
    let [warning] = &resources.diagnostics[..] else { panic!("{:?}", resources.diagnostics) };
    assert_eq!((warning.code, warning.severity), (Code::Unreadable, Severity::Warning));
    assert_eq!(&*warning.file, tree.join("tides/scripts").to_str().unwrap());
}

#[test]
fn very_many_resources_are_capped_and_that_is_said() {
    let tree = Tree::in_memory().skill("tides");
    (0..MAX_RESOURCES + 10).for_each(|number| tree.write(&format!("tides/assets/{number}.png"), ""));
    let resources = tree.discover().get("tides").unwrap().resources(1);
    assert_eq!((resources.files.len(), resources.capped), (MAX_RESOURCES, true));
    assert!(resources.files.is_sorted_by(|a, b| a.path < b.path));
}
