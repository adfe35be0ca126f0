use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::mention::{Files, Kind, Mentions, Search};

/// Files in memory, as paths below `/home/a/p`. A path that ends with `/` is a directory.
struct Memory(BTreeMap<PathBuf, Kind>);

const TOP: &str = "/home/a/p";

impl Memory {
    fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = BTreeMap::from([(PathBuf::from(TOP), Kind::Directory)]);
        for path in paths {
            let whole = Path::new(TOP).join(path.trim_end_matches('/'));
            let kind = if path.ends_with('/') { Kind::Directory } else { Kind::File };
            for above in whole.ancestors().skip(1).take_while(|above| above.starts_with(TOP)) {
                all.insert(above.to_owned(), Kind::Directory);
            }
            all.insert(whole, kind);
        }
        Self(all)
    }

    fn search(&self, text: &str) -> Mentions {
        let prefixes = vec![("/project".to_owned(), TOP.into()), (TOP.to_owned(), TOP.into())];
        let mut search = Search::new(prefixes, self);
        search.text(text);
        search.finish()
    }
}

impl Files for Memory {
    fn kind(&self, path: &Path) -> Option<Kind> {
        self.0.get(path).copied()
    }

    fn names(&self, directory: &Path, most: usize) -> Option<Vec<String>> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(directory));
        let names: Vec<String> =
            inside.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        (names.len() <= most).then_some(names)
    }
}

fn relative(paths: &[PathBuf]) -> Vec<String> {
    let below = |path: &PathBuf| path.strip_prefix(TOP).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(below).collect()
}

/// The tree of all examples.
fn tree() -> Memory {
    Memory::new([
        "a.csv",
        "b.csv",
        "plan.json",
        "notes.json",
        ".hidden.json",
        "my file.txt",
        "it's.txt",
        "say \"hi\".txt",
        "src/x.py",
        "src/y.py",
        "src/deep/z.py",
        "a b/c",
        "a",
        "app/[id]/page.tsx",
        "odd$name",
        "back\\slash",
        "data/2024/in.csv",
        "é/ü.md",
        "archive.tar.gz",
        "include/h.h",
    ])
}

#[track_caller]
fn finds(text: &str, existing: &[&str], missing: &[&str]) {
    let found = tree().search(text);
    assert_eq!(relative(&found.existing), existing, "{text}");
    assert_eq!(relative(&found.missing), missing, "{text}");
    assert!(!found.is_cut, "{text}");
}

#[test]
fn paths_are_found_as_plain_text_at_a_name_boundary() {
    for (text, path) in [
        ("cat /project/a.csv", "a.csv"),
        ("/project/a.csv", "a.csv"),
        ("cat /home/a/p/a.csv", "a.csv"),
        ("--in=/project/a.csv", "a.csv"),
        ("python3 x.py -I/project/include", "include"),
        ("cat </project/a.csv|wc", "a.csv"),
        ("curl -d @/project/a.csv", "a.csv"),
        ("file:///project/a.csv", "a.csv"),
        ("cat //project//./a.csv", "a.csv"),
        ("open('/project/a.csv')", "a.csv"),
        (r#"{"in": "/project/a.csv", "n": 1}"#, "a.csv"),
        (r#""first\n/project/a.csv\nlast""#, "a.csv"),
        ("PATH=/usr/bin:/project/src", "src"),
        ("See /project/a.csv.", "a.csv"),
        ("/project/a.csv:12: bad", "a.csv"),
        ("`/project/a.csv`", "a.csv"),
        ("ls /project/src/", "src"),
        ("ls /project", ""),
        ("ls /project/", ""),
        ("ls /project; true", ""),
        ("cd /project && ls", ""),
        ("cat /project/archive.tar.gz", "archive.tar.gz"),
        ("cat /project/é/ü.md", "é/ü.md"),
    ] {
        finds(text, &[path], &[]);
    }
    for text in [
        "cat /projects/a.csv",
        "cat /project2",
        "cat /project-x/a.csv",
        "cat /project.bak/a.csv",
        "cat my/project/a.csv",
        "cat $HOME/project/a.csv",
        "cat ${X}/project/a.csv",
        "cat $(pwd)/project/a.csv",
        "cat ~/project/a.csv",
        "cat ../project/a.csv",
        "https://example.com/project/a.csv",
        "cat /home/a/project/a.csv",
        "",
    ] {
        finds(text, &[], &[]);
    }
}

#[test]
fn the_longest_name_that_exists_is_found() {
    for (text, path) in [
        ("cat '/project/my file.txt'", "my file.txt"),
        ("cat \"/project/my file.txt\" x", "my file.txt"),
        (r"cat /project/my\ file.txt", "my file.txt"),
        ("cat /project/'my file.txt'", "my file.txt"),
        ("cat /project/\"my file.txt\"", "my file.txt"),
        ("cat /project/my file.txt", "my file.txt"),
        (r"cat '/project/it'\''s.txt'", "it's.txt"),
        ("cat \"/project/it's.txt\"", "it's.txt"),
        (r"cat /project/it\'s.txt", "it's.txt"),
        (r#"cat '/project/say "hi".txt'"#, "say \"hi\".txt"),
        (r#"cat "/project/say \"hi\".txt""#, "say \"hi\".txt"),
        ("cat '/project/a b/c'", "a b/c"),
        ("cat \"/project/a b\"/c", "a b/c"),
        ("cat /project/a b/missing", "a"),
        ("cat '/project/app/[id]/page.tsx'", "app/[id]/page.tsx"),
        ("cat '/project/odd$name'", "odd$name"),
        (r"cat /project/odd\$name", "odd$name"),
        (r"cat '/project/back\slash'", "back\\slash"),
        (r"cat /project/back\\slash", "back\\slash"),
        ("cat /project/src/../a.csv", "a.csv"),
    ] {
        finds(text, &[path], &[]);
    }
    assert_eq!(relative(&tree().search("cat /project/src/../a.csv").passed), ["src"]);
}

#[test]
fn several_paths_are_found_each_once() {
    finds("join /project/a.csv /project/b.csv /home/a/p/a.csv", &["a.csv", "b.csv"], &[]);
    finds("cp '/project/my file.txt' /project/src /tmp", &["my file.txt", "src"], &[]);
    finds("cat /project/src/x.py\n/project/src/y.py", &["src/x.py", "src/y.py"], &[]);
}

#[test]
fn patterns_are_expanded_and_variables_give_the_directory_before_them() {
    for (text, paths) in [
        ("cat /project/*.json", &["notes.json", "plan.json"][..]),
        ("cat /project/{a,b}.csv", &["a.csv", "b.csv"]),
        ("cat /project/?.csv", &["a.csv", "b.csv"]),
        ("cat /project/[ab].csv", &["a.csv", "b.csv"]),
        ("cat /project/*/x.py", &["src/x.py"]),
        ("cat /project/src/*.py | wc", &["src/x.py", "src/y.py"]),
        ("cat /project/.*.json", &[".hidden.json"]),
        ("glob.glob('/project/*.json')", &["notes.json", "plan.json"]),
        ("bash -c \"cat /project/*.json\"", &["notes.json", "plan.json"]),
        ("cat \"/project/a b\"/*", &["a b/c"]),
        ("grep -r x /project/**/*.py", &[""]),
        ("cat /project/src/**/z.py", &["src"]),
        ("cat /project/$X/file", &[""]),
        ("cat /project/data/${YEAR}/in.csv", &["data"]),
        ("cat \"/project/data/2024/$F\"", &["data/2024"]),
        ("cat /project/data/2025/$F", &["data"]),
        ("cat /project/data/$(date +%Y)/in.csv", &["data"]),
        ("cat /project/data/`date +%Y`/in.csv", &["data"]),
        ("open(f'/project/data/{year}/in.csv')", &["data"]),
        ("cat /project/src$X", &[""]),
    ] {
        finds(text, paths, &[]);
    }
}

#[test]
fn a_name_that_does_not_exist_gives_nothing() {
    finds("echo > /project/new.txt", &[], &["new.txt"]);
    finds("echo > '/project/src/new file.txt'", &[], &["src/new"]);
    finds("cat /project/a.csvx /project/b.csv", &["b.csv"], &["a.csvx"]);
    finds("cat /project/*.toml", &[], &["*.toml"]);
    finds("cat /project/plan.json/x", &[], &["plan.json/x"]);
    finds("See /project/gone.md.", &[], &["gone.md"]);
}

#[test]
fn no_path_leaves_its_place() {
    for text in [
        "cat /project/../q",
        "cat /project/src/../../x",
        "cat /project/../../etc/passwd",
        "cat /project/*/../../x",
    ] {
        let found = tree().search(text);
        assert!(
            found.existing.iter().chain(&found.missing).all(|path| path.starts_with(TOP)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn the_nearest_place_counts() {
    let memory = tree();
    let prefixes =
        vec![("/work/out".to_owned(), TOP.into()), ("/work/out/old".to_owned(), format!("{TOP}/src").into())];
    let mut search = Search::new(prefixes, &memory);
    search.text("cat /work/out/old/x.py /work/out/a.csv");
    assert_eq!(relative(&search.finish().existing), ["src/x.py", "a.csv"]);
}

#[test]
fn a_long_text_is_searched_within_bounds() {
    let many: String = (0..30_000).map(|n| format!("/project/missing{n} ")).collect();
    let found = tree().search(&many);
    assert!(found.is_cut && found.missing.len() <= 1_000);
    let deep = "/project".to_owned() + &"/src/..".repeat(20_000);
    assert!(tree().search(&deep).existing.len() <= 1);
    assert!(tree().search(&format!("/project/{}", "a ".repeat(50_000))).existing.len() == 1);
}

/// How a shell's command line can write a path.
fn written(path: &str, style: u8) -> String {
    match style {
        0 => path
            .chars()
            .flat_map(|c| if c.is_alphanumeric() || c == '/' { vec![c] } else { vec!['\\', c] })
            .collect(),
        1 => format!("'{}'", path.replace('\'', r"'\''")),
        _ => {
            let quoted = |c| if matches!(c, '"' | '\\' | '$' | '`') { vec!['\\', c] } else { vec![c] };
            format!("\"{}\"", path.chars().flat_map(quoted).collect::<String>())
        }
    }
}

proptest! {
    #[test]
    fn a_quoted_name_is_found_whatever_it_contains(
        names in prop::collection::vec("[a-c '\"$*\\[\\]{}é.-]{1,6}", 1..4),
        style in 0u8..3,
    ) {
        prop_assume!(names.iter().all(|name| name != "." && name != ".."));
        // Some names are ambiguous as text, such as one that ends with a quote.
        prop_assume!(names.iter().all(|name| !name.contains(['\'', '"'])));
        let path = names.join("/");
        let memory = Memory::new([path.as_str()]);
        let text = format!("cat {} x", written(&format!("/project/{path}"), style));
        let found = memory.search(&text);
        prop_assert_eq!(relative(&found.existing), vec![path], "{}", text);
    }

    #[test]
    fn what_is_found_exists_and_lies_in_its_place(text in "(/project|/home/a/p|[/a-c.*?$'\" {},\\[\\]\\\\~]|src|x\\.py){0,40}") {
        let memory = tree();
        let found = memory.search(&text);
        for path in &found.existing {
            prop_assert!(memory.kind(path).is_some() && path.starts_with(TOP), "{text}: {path:?}");
        }
        for path in found.missing.iter().chain(&found.passed) {
            prop_assert!(path.starts_with(TOP), "{text}: {path:?}");
        }
    }

    #[test]
    fn any_text_is_searched(text in any::<String>()) {
        tree().search(&text);
        tree().search(&format!("/project/{text}"));
        tree().search(&format!("/project{text}"));
    }
}
