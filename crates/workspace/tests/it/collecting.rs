//! Tests of collected files.

use proptest::prelude::*;
use prowess_workspace::collect::{CollectLimits, normalize_glob};

use crate::place::{Place, collect, collect_within, names, put};

#[test]
fn files_come_in_order_with_their_text() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/b.txt", "b");
    put(&workspace, "out/a.md", "# a");
    put(&workspace, "out/deep/er/c.json", "{}");
    put(&workspace, "out/image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    put(&workspace, "work/left.txt", "not asked for");
    let (files, warnings) = collect(&workspace, &["$OUTPUT_DIR/**"]);
    let seen: Vec<_> = files
        .iter()
        .map(|file| (file.name.as_str(), file.mime_type.as_str(), file.content.as_deref(), file.size_bytes))
        .collect();
    assert_eq!(
        seen,
        [
            ("out/a.md", "text/markdown", Some("# a"), 3),
            ("out/b.txt", "text/plain", Some("b"), 1),
            ("out/deep/er/c.json", "application/json", Some("{}"), 2),
            ("out/image.png", "image/png", None, 16),
        ]
    );
    assert!(files.iter().all(|file| !file.truncated));
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_file_is_collected_once_however_many_globs_match_it() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/a.txt", "a");
    let (files, warnings) = collect(&workspace, &["out/*.txt", "**/a.txt", "out/a.txt", "work/*.csv"]);
    assert_eq!(names(&files), ["out/a.txt"]);
    assert_eq!(warnings, ["`work/*.csv` matched no file"]);
}

#[test]
fn one_star_stays_within_a_name() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/a.txt", "a");
    put(&workspace, "out/b/a.txt", "a");
    assert_eq!(names(&collect(&workspace, &["out/*.txt"]).0), ["out/a.txt"]);
    assert_eq!(names(&collect(&workspace, &["out/*/*.txt"]).0), ["out/b/a.txt"]);
    assert_eq!(names(&collect(&workspace, &["out/{a,b/a}.txt"]).0), ["out/a.txt", "out/b/a.txt"]);
}

#[test]
fn limits_bite_and_say_so() {
    let place = Place::new();
    let workspace = place.workspace();
    for number in 0..5 {
        put(&workspace, &format!("out/{number}"), "é".repeat(10));
    }
    let limits = |max_files, max_file_bytes, max_total_bytes| {
        let mut limits = CollectLimits::default();
        (limits.max_files, limits.max_file_bytes) = (max_files, max_file_bytes);
        limits.max_total_bytes = max_total_bytes;
        limits
    };
    let (files, warnings) = collect_within(&workspace, &["out/*"], limits(2, 100, 100));
    assert_eq!(names(&files), ["out/0", "out/1"]);
    assert_eq!(warnings, ["collecting stopped: more than 2 files match; other files were left out"]);

    let (files, warnings) = collect_within(&workspace, &["out/0"], limits(9, 5, 100));
    assert_eq!(files[0].content.as_deref(), Some("éé"), "cut between characters");
    assert_eq!((files[0].size_bytes, files[0].truncated), (20, true));
    assert_eq!(warnings, ["`out/0` is truncated: 5 of its 20 bytes"]);

    let (files, warnings) = collect_within(&workspace, &["out/*"], limits(9, 100, 50));
    let cut: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.truncated)).collect();
    assert_eq!(cut, [("out/0", false), ("out/1", false), ("out/2", true)]);
    assert_eq!(
        warnings[1],
        "collecting stopped: the files that match have more than 50 bytes; other files were left out"
    );

    // Exactly at the limits, nothing is cut and there is no warning.
    let (files, warnings) = collect_within(&workspace, &["out/*"], limits(5, 20, 100));
    assert!(files.len() == 5 && files.iter().all(|file| !file.truncated));
    assert_eq!(warnings, Vec::<String>::new());

    let (_, warnings) = collect_within(&workspace, &["out/*"], limits(usize::MAX, u64::MAX, u64::MAX));
    assert!(warnings[0].starts_with("the limits in `outputs` were lowered"), "{warnings:?}");
}

#[test]
fn old_versions_of_skills_are_no_outputs() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "skills/.prowess-1-1/a.txt", "old");
    put(&workspace, "skills/demo/a.txt", "new");
    assert_eq!(names(&collect(&workspace, &["**/*.txt"]).0), ["skills/demo/a.txt"]);
    assert_eq!(names(&collect(&workspace, &["$SKILLS_DIR/demo/*"]).0), ["skills/demo/a.txt"]);
}

const VARIABLES: [(&str, &str); 4] =
    [("OUTPUT_DIR", "out"), ("WORK_DIR", "work"), ("SKILLS_DIR", "skills"), ("RUN_DIR", "runs")];

proptest! {
    #[test]
    fn what_is_normalized_stays_inside_and_as_it_is(glob in "[$a-c{}.,/*\\[\\]\\\\A-Z_]{0,40}") {
        if let Ok(normal) = normalize_glob(&glob) {
            prop_assert!(!normal.is_empty() && !normal.starts_with('/') && !normal.contains("//"));
            prop_assert!(normal.split('/').all(|name| !matches!(name, "" | "." | "..")));
            prop_assert_eq!(normalize_glob(&normal).unwrap(), normal);
        }
    }

    #[test]
    fn both_forms_of_a_variable_are_its_directory(which in 0..4usize, rest in "(/[a-z*]{1,8}){0,4}") {
        let (name, directory) = VARIABLES[which];
        let expected = format!("{directory}{rest}");
        prop_assert_eq!(&normalize_glob(&format!("${name}{rest}")).unwrap(), &expected);
        prop_assert_eq!(&normalize_glob(&format!("${{{name}}}{rest}")).unwrap(), &expected);
        let whole = format!("$WORKSPACE_DIR/{expected}");
        prop_assert_eq!(&normalize_glob(&whole).unwrap(), &expected);
    }

    #[test]
    fn a_longer_name_is_another_variable(which in 0..4usize, more in "[A-Za-z0-9_]{1,5}", rest in "(/[a-z]{1,8}){0,2}") {
        let glob = format!("${}{more}{rest}", VARIABLES[which].0);
        prop_assert_eq!(normalize_glob(&glob).unwrap(), glob);
    }
}
