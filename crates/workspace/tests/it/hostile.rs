//! Hostile inputs and outputs; each test has the number of its case.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prowess_workspace::collect::{
    CollectLimits, GlobProblem, MAX_GLOB_ALTERNATIVES, MAX_VISITED, normalize_glob,
};
use prowess_workspace::{InputMode, RunError, RunInput, RunOutputs, RunRequest, Workspace};
use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

use crate::modes::in_both_modes;
use crate::place::{Place, collect, collect_within, in_time, mode, names, put, said, set_mode, tree};

in_both_modes!(
    case_26_a_place_outside_is_refused_and_nothing_is_deleted,
    case_27_a_place_behind_a_link_is_denied,
    case_28_files_of_the_host_come_in_only_when_allowed,
    case_29_another_skills_path_stays_in_that_skill,
    case_30_a_linked_host_directory_is_read_only,
    case_31_globs_that_lead_out_are_refused,
    case_32_a_link_to_a_secret_is_skipped_and_reported,
    case_33_a_directory_swapped_for_a_link_while_collecting_leads_nowhere,
    case_34_a_sparse_terabyte_is_bounded,
    case_35_fifos_sockets_and_devices_are_skipped,
    case_36_hard_links_are_flagged,
    case_37_a_million_files_stop_at_the_limit,
    case_38_brace_bombs_are_capped,
    case_39_odd_names_are_safe_in_json,
    case_40_colliding_names_make_a_new_version,
    case_41_a_template_that_leads_upwards_is_refused,
    case_42_archives_are_never_unpacked,
    case_43_html_called_png_is_sniffed,
    case_44_set_uid_bits_are_stripped,
    case_45_a_file_that_grows_while_it_is_read_stays_capped,
);

fn input(from: impl Into<String>, to: &str, mode: InputMode) -> RunInput {
    RunInput { from: from.into(), to: Some(to.to_owned()), mode }
}

async fn refusal(workspace: &Workspace, input: RunInput) -> String {
    workspace.stage_inputs(&[input], None, &|_: &Path| true).await.unwrap_err().to_string()
}

async fn case_26_a_place_outside_is_refused_and_nothing_is_deleted() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/source", "text");
    put(&workspace, "work/kept/file", "kept");
    let beside = workspace.path().parent().unwrap().join("x");
    std::fs::write(&beside, "kept").unwrap();
    let before = tree(workspace.path());
    for to in ["../x", "work/../../x", "work/kept/../../..", "..", "/x", "", "work/kept", "work\0/x", "./.."]
    {
        for mode in [InputMode::Copy, InputMode::Link] {
            // An empty destination means the default one.
            if to.is_empty() {
                continue;
            }
            let refused = refusal(&workspace, input("workspace://out/source", to, mode)).await;
            assert!(refused.contains("is refused"), "{to:?}: {refused}");
            assert_eq!(tree(workspace.path()), before, "{to:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(beside).unwrap(), "kept");
    assert_eq!(std::fs::read_to_string(workspace.path().join("work/kept/file")).unwrap(), "kept");
}

async fn case_27_a_place_behind_a_link_is_denied() {
    let place = Place::new();
    let workspace = place.workspace();
    let outside = place.file("outside/kept", "kept");
    put(&workspace, "out/source", "text");
    symlink(outside.parent().unwrap(), workspace.path().join("work/link")).unwrap();
    symlink("../out", workspace.path().join("work/within")).unwrap();
    std::fs::create_dir(workspace.path().join("work/real")).unwrap();
    symlink("/", workspace.path().join("work/real/root")).unwrap();
    let host = format!("host://{}", outside.display());
    for to in ["work/link/x", "work/link/new/x", "work/within/x", "work/real/root/tmp/prowess-x"] {
        for (from, mode) in [
            ("workspace://out/source", InputMode::Copy),
            ("workspace://out/source", InputMode::Link),
            (host.as_str(), InputMode::Copy),
            (host.as_str(), InputMode::Link),
        ] {
            let refused = refusal(&workspace, input(from, to, mode)).await;
            assert!(refused.contains("leads through a link"), "{to}: {refused}");
        }
    }
    assert_eq!(tree(outside.parent().unwrap()), ["kept"]);
    assert_eq!(tree(&workspace.path().join("out")), ["source"]);
    assert!(!Path::new("/tmp/prowess-x").exists());
}

async fn case_28_files_of_the_host_come_in_only_when_allowed() {
    let place = Place::new();
    let allowed = place.file("allowed/data", "data");
    let secret = place.file("secret/key", "key");
    symlink(&secret, place.path("allowed/link")).unwrap();
    symlink(place.path("secret"), place.path("allowed/directory")).unwrap();
    let asked = Mutex::new(Vec::new());
    let gate = |path: &Path| {
        asked.lock().unwrap().push(path.to_owned());
        path.starts_with(place.path("allowed"))
    };
    let run = async |path: PathBuf, mode| {
        let mut request = RunRequest::new("demo", "cat inputs/it");
        request.inputs = vec![input(format!("host://{}", path.display()), "work/inputs/it", mode)];
        let answer = place.run_with(request, gate).await;
        (answer, std::mem::take(&mut *asked.lock().unwrap()))
    };
    place.skill("demo", &[]);
    let (report, questions) = run(allowed.clone(), InputMode::Copy).await;
    assert_eq!((report.unwrap().stdout.as_str(), questions), ("data", vec![allowed]));
    for mode in [InputMode::Copy, InputMode::Link] {
        // Denied by its path, before anybody checks whether it exists.
        for path in [secret.clone(), place.path("secret/gone")] {
            let (refused, questions) = run(path.clone(), mode).await;
            assert!(refused.unwrap_err().to_string().contains("reading the local file"));
            assert_eq!(questions, [path]);
        }
        // Denied by the target of the link.
        for path in ["allowed/link", "allowed/directory/key"] {
            let (refused, questions) = run(place.path(path), mode).await;
            assert!(refused.unwrap_err().to_string().contains("reading the local file"), "{path}");
            assert_eq!(questions, [place.path(path), secret.clone()]);
        }
        let (refused, questions) = run(place.path("allowed/../secret/key"), mode).await;
        assert!(refused.unwrap_err().to_string().contains("it has a `..`"));
        assert_eq!(questions, Vec::<PathBuf>::new());
    }
}

async fn case_29_another_skills_path_stays_in_that_skill() {
    let place = Place::new();
    place.skill("demo", &[]);
    place.skill("other", &[("data", "data")]);
    let run = async |from: &str, mode| {
        let mut request = RunRequest::new("demo", "cat inputs/data");
        request.inputs = vec![RunInput { from: from.to_owned(), to: None, mode }];
        place.run(request).await
    };
    for mode in [InputMode::Copy, InputMode::Link] {
        for from in [
            "skill://other/../..",
            "skill://other/../demo/SKILL.md",
            "skill://../other/data",
            "skill:///etc/passwd",
            "skill://other//../x",
            "skill://other/out/x",
            "skill://.prowess-1/x",
        ] {
            let refused = run(from, mode).await.unwrap_err().to_string();
            assert!(refused.contains("refused") || refused.contains("unknown skill"), "{from}: {refused}");
        }
        assert_eq!(run("skill://other/data", mode).await.unwrap().stdout, "data");
    }
    let unknown = run("skill://none/data", InputMode::Copy).await.unwrap_err();
    assert_eq!(unknown.to_string(), "unknown skill: none");
}

async fn case_30_a_linked_host_directory_is_read_only() {
    let place = Place::new();
    let file = place.file("host/data.txt", "data");
    place.skill("demo", &[]);
    let mut request = RunRequest::new(
        "demo",
        "cat inputs/host/data.txt; echo evil > inputs/host/data.txt; echo evil > inputs/host/new; rm inputs/host/data.txt",
    );
    request.inputs =
        vec![input(format!("host://{}", file.parent().unwrap().display()), "work/inputs/", InputMode::Link)];
    let report = place.run_with(request, |_| true).await.unwrap();
    assert_eq!((report.stdout.as_str(), report.exit_code), ("data", 1));
    assert_eq!(report.stderr.matches("read-only filesystem").count(), 3, "{}", report.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data");
    assert_eq!(tree(file.parent().unwrap()), ["data.txt"]);
    // The workspace never has a link to a local file, and the placeholder is gone.
    let workspace = place.workspace();
    assert_eq!(tree(&workspace.path().join("work")), ["inputs"]);
}

async fn case_31_globs_that_lead_out_are_refused() {
    let place = Place::new();
    place.skill("demo", &[]);
    for (glob, problem) in [
        ("/etc/*", GlobProblem::Absolute),
        ("//etc/*", GlobProblem::Absolute),
        ("../**", GlobProblem::Upwards),
        ("out/../../**", GlobProblem::Upwards),
        ("$OUTPUT_DIR/../../x", GlobProblem::Upwards),
        ("out/{a,..}/*", GlobProblem::Upwards),
        ("out/\\../x", GlobProblem::Upwards),
        ("", GlobProblem::Empty),
        ("./", GlobProblem::Empty),
    ] {
        assert_eq!(normalize_glob(glob).unwrap_err().problem, problem, "{glob}");
        let mut both =
            [RunRequest::new("demo", "echo ran > out/ran"), RunRequest::new("demo", "echo ran > out/ran")];
        both[0].output_files = vec![glob.to_owned()];
        both[1].outputs = Some(RunOutputs { globs: vec![glob.to_owned()], ..RunOutputs::default() });
        for request in both {
            let refused = place.run(request).await.unwrap_err();
            assert!(matches!(refused, RunError::Glob(_)), "{glob}: {refused}");
        }
    }
    assert!(!place.workspace().path().join("out/ran").exists(), "nothing ran");
    // These globs only look similar: a class cannot match a slash, and a name with dots is a name.
    let workspace = place.workspace();
    assert_eq!(collect(&workspace, &["[.][.]/*", "...", "out/..x"]).0, []);
}

async fn case_32_a_link_to_a_secret_is_skipped_and_reported() {
    let place = Place::new();
    place.skill("demo", &[]);
    let secret = place.file("secret", "the secret");
    let mut request = RunRequest::new(
        "demo",
        format!(
            "ln -s /etc/shadow out/x; ln -s {} out/y; ln -s ../.. out/up; ln -s {} out/d; echo fine > out/z",
            secret.display(),
            secret.parent().unwrap().display()
        ),
    );
    request.output_files = vec!["out/**".to_owned(), "out/d/secret".to_owned(), "out/up/*".to_owned()];
    request.save_as_artifacts = true;
    let report = place.run(request).await.unwrap();
    assert_eq!(names(&report.output_files), ["out/z"]);
    for link in ["out/x", "out/y", "out/up", "out/d"] {
        let expected = format!("`{link}` was left out: it is a link, and links are not followed");
        assert!(said(&report.warnings).contains(&expected), "{:?}", report.warnings);
    }
    let text = serde_json::to_string(&report).unwrap();
    assert!(!text.contains("the secret") && !text.contains("root:"));
    assert_eq!(place.runner().artifacts.unwrap().list().await.unwrap().len(), 1);
}

async fn case_33_a_directory_swapped_for_a_link_while_collecting_leads_nowhere() {
    let place = Place::new();
    let workspace = place.workspace();
    place.file("secret/file", "SECRET");
    put(&workspace, "out/d/e/file", "public");
    std::fs::create_dir(place.path("links")).unwrap();
    symlink(place.path("secret"), workspace.path().join("out/l")).unwrap();
    // A link to another directory of the workspace is refused too.
    put(&workspace, "work/private/k/file", "SECRET");
    put(&workspace, "out/h/i/k/file", "public");
    symlink("../../work/private", workspace.path().join("out/j")).unwrap();
    // The file itself is swapped too.
    put(&workspace, "out/f", "public");
    symlink(place.path("secret/file"), workspace.path().join("out/g")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut reads, mut skips) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = |name: &str| workspace.path().join(name);
            while !stop.load(Ordering::Relaxed) {
                for (one, other) in [("out/d/e", "out/l"), ("out/f", "out/g"), ("out/h/i", "out/j")] {
                    renameat_with(CWD, at(one), CWD, at(other), RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let (files, warnings) = collect(&workspace, &["out/**", "out/d/e/file", "out/l/file"]);
            for file in &files {
                assert_eq!(file.content.as_deref(), Some("public"), "{}", file.name);
            }
            reads += files.len();
            skips += warnings.len();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reads > 0 && skips > 0, "the race was run: {reads} {skips}");
}

async fn case_34_a_sparse_terabyte_is_bounded() {
    let place = Place::new();
    let workspace = place.workspace();
    for name in ["out/a", "out/b"] {
        let file = std::fs::File::create(workspace.path().join(name)).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let (files, warnings) = in_time(move || collect(&workspace, &["out/*"]));
    for file in &files {
        assert_eq!((file.size_bytes, file.truncated, &file.content), (1 << 40, true, &None));
    }
    assert_eq!(warnings[0], "`out/a` is truncated: 4194304 of its 1099511627776 bytes");
}

async fn case_35_fifos_sockets_and_devices_are_skipped() {
    let place = Place::new();
    let workspace = place.workspace();
    let at = |name: &str| workspace.path().join("out").join(name);
    mknodat(CWD, at("fifo"), FileType::Fifo, 0o666.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    // Only root can make a device; anyone can link to one.
    let zero = rustix::fs::makedev(1, 5);
    let device = mknodat(CWD, at("device"), FileType::CharacterDevice, 0o666.into(), zero);
    if device.is_err() {
        symlink("/dev/zero", at("device")).unwrap();
    }
    put(&workspace, "out/file", "text");
    let path = workspace.path().to_owned();
    let (files, warnings) = in_time(move || collect(&workspace, &["out/*", "out/fifo"]));
    assert_eq!(names(&files), ["out/file"]);
    let device = if device.is_err() { "link, and links are not followed" } else { "device" };
    let expected = [("device", device), ("fifo", "FIFO"), ("socket", "socket")];
    let expected = expected.map(|(name, kind)| format!("`out/{name}` was left out: it is a {kind}"));
    assert_eq!(warnings, expected);
    assert!(path.join("out/fifo").exists());
}

async fn case_36_hard_links_are_flagged() {
    let place = Place::new();
    let workspace = place.workspace();
    let file = put(&workspace, "work/file", "text");
    std::fs::hard_link(file, workspace.path().join("out/link")).unwrap();
    let (files, warnings) = collect(&workspace, &["out/*"]);
    assert_eq!(names(&files), ["out/link"]);
    assert_eq!(warnings, ["`out/link` was collected, and has 2 names (hard links)"]);
}

async fn case_37_a_million_files_stop_at_the_limit() {
    let place = Place::new();
    let workspace = place.workspace();
    // A million hard links; the walk stops before it sees all of them.
    let first = put(&workspace, "out/many/0", "");
    let mut name_of = first.clone();
    for number in 1..MAX_VISITED + 10 {
        let next = first.with_file_name(number.to_string());
        // A file can have at most 65,000 names.
        if number % 60_000 == 0 {
            std::fs::write(&next, "").unwrap();
            name_of.clone_from(&next);
        } else {
            std::fs::hard_link(&name_of, &next).unwrap();
        }
    }
    let again = workspace.clone();
    let (files, warnings) = in_time(move || collect(&again, &["out/**"]));
    assert_eq!(files.len(), 100);
    let limit = "collecting stopped: more than 100 files match; other files were left out".to_owned();
    assert!(warnings.contains(&limit), "{warnings:?}");
    assert!(warnings.len() < 60, "warnings are bounded too");
    let (files, warnings) = in_time(move || collect(&workspace, &["out/**/none.txt"]));
    assert_eq!(files, []);
    assert_eq!(
        warnings,
        [format!(
            "collecting stopped: the workspace has more than {MAX_VISITED} files; other files were left out"
        )]
    );
}

async fn case_38_brace_bombs_are_capped() {
    let start = Instant::now();
    for bomb in [
        "{a,b}".repeat(60),
        "{a,b,c,d,e,f,g,h}".repeat(50),
        format!("{}a{}", "{".repeat(500), "}".repeat(500)),
        "{".repeat(1000),
        format!("{{{}}}", "a,".repeat(usize::try_from(MAX_GLOB_ALTERNATIVES).unwrap())),
        "{a,{b,{c,{d,{e,{f,{g,{h,{i,{j}}}}}}}}}}".to_owned(),
    ] {
        let refused = normalize_glob(&bomb).unwrap_err();
        assert!(matches!(refused.problem, GlobProblem::TooManyAlternatives), "{refused}");
        assert!(refused.to_string().len() < 400, "the bomb is not repeated whole");
    }
    assert_eq!(normalize_glob(&"a".repeat(2000)).unwrap_err().problem, GlobProblem::TooLong);
    let place = Place::new();
    let workspace = place.workspace();
    // Valid globs finish soon, whatever they look like.
    for glob in [
        "**/".repeat(300),
        "*a".repeat(500),
        "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}**".to_owned(),
        "[!a]*".repeat(200),
    ] {
        let _ = workspace.collect(&[glob], CollectLimits::default());
    }
    let many = vec!["out/*".to_owned(); 101];
    assert_eq!(workspace.collect(&many, CollectLimits::default()).unwrap_err().problem, GlobProblem::TooMany);
    assert!(start.elapsed() < Duration::from_secs(10));
}

async fn case_39_odd_names_are_safe_in_json() {
    let place = Place::new();
    let workspace = place.workspace();
    let odd: [&[u8]; 6] = [
        b"new\nline",
        b"\x1b[31mred\x07",
        b"bad\xff\xfeutf8",
        b"quo\"te\\n",
        "\u{202e}gnp.exe".as_bytes(),
        b"tab\t",
    ];
    for name in odd {
        std::fs::write(workspace.path().join("out").join(std::ffi::OsStr::from_bytes(name)), "text").unwrap();
    }
    std::fs::create_dir(workspace.path().join("out").join(std::ffi::OsStr::from_bytes(b"d\xff\n"))).unwrap();
    symlink("x", workspace.path().join("out").join(std::ffi::OsStr::from_bytes(b"d\xff\n/\x1b]0;"))).unwrap();
    let (files, warnings) = collect(&workspace, &["out/**"]);
    assert_eq!(
        names(&files),
        [
            "out/\\u{1b}[31mred\\u{7}",
            "out/\\u{202e}gnp.exe",
            "out/bad\\xff\\xfeutf8",
            "out/new\\nline",
            "out/quo\"te\\\\n",
            "out/tab\\t",
        ]
    );
    assert_eq!(
        warnings,
        ["`out/d\\xff\\n/\\u{1b}]0;` was left out: it is a link, and links are not followed"]
    );
    let json = serde_json::to_string(&(&files, &warnings)).unwrap();
    assert!(!json.chars().any(char::is_control));
    let back: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(back[0][3]["name"], "out/new\\nline");
}

async fn case_40_colliding_names_make_a_new_version() {
    let place = Place::new();
    place.skill("demo", &[]);
    for number in 0..3 {
        let mut request = RunRequest::new("demo", format!("echo {number} > out/a.txt"));
        request.outputs =
            Some(RunOutputs { globs: vec!["out/*".to_owned()], save: true, ..RunOutputs::default() });
        let report = place.run(request).await.unwrap();
        let kept: Vec<_> =
            report.artifact_files.iter().map(|kept| (kept.name.as_str(), kept.version)).collect();
        assert_eq!(kept, [("out/a.txt", number)]);
    }
    for number in 0..3 {
        let mut request = RunRequest::new("demo", "cat inputs/a.txt");
        request.inputs = vec![RunInput::copy(format!("artifact://out/a.txt@{number}"))];
        assert_eq!(place.run(request).await.unwrap().stdout, format!("{number}\n"));
    }
}

async fn case_41_a_template_that_leads_upwards_is_refused() {
    let place = Place::new();
    place.skill("demo", &[]);
    for template in ["../../", "/", "a/../", "..", "a\n", "a//", "./", &"long/".repeat(100)] {
        let ran = place.workspace().path().join("out/ran");
        let mut both =
            [RunRequest::new("demo", "echo ran > out/ran"), RunRequest::new("demo", "echo ran > out/ran")];
        both[0].outputs = Some(RunOutputs {
            globs: vec!["out/*".to_owned()],
            save: true,
            name_template: Some(template.to_owned()),
            ..RunOutputs::default()
        });
        both[1].output_files = vec!["out/*".to_owned()];
        both[1].save_as_artifacts = true;
        both[1].artifact_prefix = Some(template.to_owned());
        for request in both {
            match place.run(request).await {
                Err(refused) => {
                    assert!(matches!(refused, RunError::ArtifactName(_)), "{template:?}: {refused}")
                }
                // `..out/ran` is a normal name.
                Ok(report) => {
                    assert_eq!((template, report.artifact_files[0].name.as_str()), ("..", "..out/ran"));
                    std::fs::remove_file(&ran).unwrap();
                }
            }
        }
        assert!(!ran.exists(), "{template:?}: nothing ran");
    }
}

async fn case_42_archives_are_never_unpacked() {
    let place = Place::new();
    // An archive that would write outside its directory.
    let mut header = vec![0u8; 1536];
    header[..14].copy_from_slice(b"../escaped.txt");
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(b"00000000004");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[512..516].copy_from_slice(b"evil");
    let archive = place.file("skills/demo/evil.tar", &header);
    place.skill("demo", &[]);
    let mut request = RunRequest::new("demo", "cp inputs/evil.tar out/evil.tar; cp evil.tar out/own.tar");
    request.inputs = vec![RunInput::copy(format!("host://{}", archive.display()))];
    request.output_files = vec!["out/**".to_owned()];
    request.save_as_artifacts = true;
    let report = place.run_with(request, |_| true).await.unwrap();
    assert_eq!(names(&report.output_files), ["out/evil.tar", "out/own.tar"]);
    assert!(
        report
            .output_files
            .iter()
            .all(|file| file.mime_type == "application/x-tar" && file.content.is_none())
    );
    let mut request = RunRequest::new("demo", "true");
    request.inputs = vec![RunInput::copy("artifact://out/evil.tar")];
    place.run(request).await.unwrap();
    assert_eq!(tree(&place.workspace().path().join("work")), ["inputs", "inputs/evil.tar"]);
    assert!(!tree(&place.path("")).iter().any(|path| path.contains("escaped")));
}

async fn case_43_html_called_png_is_sniffed() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/page.png", "\u{feff} <!DOCTYPE html><script>alert(1)</script>");
    put(&workspace, "out/vector.jpg", "<svg onload=\"alert(1)\"/>");
    put(&workspace, "out/picture.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01");
    let (files, _) = collect(&workspace, &["out/*"]);
    let types: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.mime_type.as_str())).collect();
    assert_eq!(
        types,
        [
            ("out/page.png", "text/html"),
            ("out/picture.txt", "image/png"),
            ("out/vector.jpg", "image/svg+xml")
        ]
    );
    assert_eq!(files[1].content, None);
}

async fn case_44_set_uid_bits_are_stripped() {
    let place = Place::new();
    let source = place.skill("demo", &[("tool", "#!/bin/sh"), ("plain", "text")]);
    let host = place.file("host/tool", "#!/bin/sh");
    for path in [place.path("skills/demo/tool"), host.clone()] {
        set_mode(path, 0o6755);
    }
    set_mode(place.path("skills/demo/plain"), 0o7644);
    set_mode(place.path("skills/demo"), 0o2755);
    let workspace = place.workspace();
    let _staged = workspace.stage("demo", &source).await.unwrap();
    let inputs = [
        RunInput::copy(format!("host://{}", host.display())),
        input(format!("host://{}", host.parent().unwrap().display()), "work/directory", InputMode::Copy),
        input("skill://demo/plain", "work/plain", InputMode::Copy),
    ];
    workspace.stage_inputs(&inputs, None, &|_: &Path| true).await.unwrap();
    for (path, expected) in [
        ("skills/demo", 0o555),
        ("skills/demo/tool", 0o555),
        ("skills/demo/plain", 0o444),
        ("work/inputs/tool", 0o755),
        ("work/directory", 0o755),
        ("work/directory/tool", 0o755),
        ("work/plain", 0o644),
    ] {
        assert_eq!(mode(workspace.path().join(path)), expected, "{path}");
    }
}

async fn case_45_a_file_that_grows_while_it_is_read_stays_capped() {
    let place = Place::new();
    let workspace = place.workspace();
    let path = put(&workspace, "out/log", "x");
    let stop = AtomicBool::new(false);
    let mut limits = CollectLimits::default();
    (limits.max_file_bytes, limits.max_total_bytes) = (10_000, 15_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            let mut left = 64 << 20;
            // On a busy machine, the loop below may end first. The file still grows beyond the limit.
            let least = left - (1 << 15);
            while (!stop.load(Ordering::Relaxed) || left > least) && left > 0 {
                std::io::Write::write_all(&mut file, &[b'x'; 4096]).unwrap();
                left -= 4096;
            }
        });
        for _ in 0..200 {
            let (files, _) = collect_within(&workspace, &["out/log"], limits);
            let content = files[0].content.as_ref().unwrap();
            assert!(content.len() <= 10_000);
            // A file that was written meanwhile counts as truncated, however much was read.
            assert!(files[0].truncated || files[0].size_bytes == content.len() as u64);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (files, warnings) = collect_within(&workspace, &["out/log"], limits);
    assert!(files[0].truncated && warnings[0].starts_with("`out/log` is truncated: 10000 of its"));
    // Files that the system generates report a size of 0, so their end must be found by reading.
    assert_eq!(files[0].content.as_ref().unwrap().len(), 10_000);
}
