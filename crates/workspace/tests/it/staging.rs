//! Tests of staged skills.

use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_workspace::stage::{MAX_SKILL_FILES, SkillListing, StageFile, StageFiles, StageSource};
use prowess_workspace::{InnerPath, RunWarning, WorkspaceError};

use crate::place::{Place, mode, said, set_mode, tree};

fn read(path: impl AsRef<std::path::Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_skill_is_copied_read_only_with_links_to_the_workspace() {
    let place = Place::new();
    let source = place.skill("demo", &[("scripts/run.sh", "echo"), ("empty/.keep", "")]);
    set_mode(place.path("skills/demo/scripts/run.sh"), 0o755);
    let workspace = place.workspace();
    let staged = workspace.stage("demo", &source).await.unwrap();
    assert_eq!(
        (staged.directory.as_str(), staged.copied, staged.warnings.as_slice()),
        ("skills/demo", 3, &[][..])
    );
    let at = workspace.path().join("skills/demo");
    assert_eq!(
        tree(&at),
        ["SKILL.md", "empty", "empty/.keep", "inputs", "out", "scripts", "scripts/run.sh", "work"]
    );
    assert_eq!(mode(at.join("SKILL.md")), 0o444);
    assert_eq!(mode(at.join("scripts/run.sh")), 0o555);
    assert_eq!(mode(at.join("scripts")), 0o555);
    for (name, place) in [("out", "out"), ("work", "work"), ("inputs", "work/inputs")] {
        // Two links: the second is another one in a sandbox.
        let (first, second) = (at.join(name), workspace.path().join(".places").join(name));
        assert_eq!(std::fs::read_link(first).unwrap().to_str(), Some(&*format!("../../.places/{name}")));
        assert_eq!(std::fs::read_link(second).unwrap().to_str(), Some(&*format!("../{place}")));
    }
}

#[tokio::test]
async fn an_unchanged_skill_is_not_copied_again() {
    let place = Place::new();
    let source = place.skill("demo", &[("a", "one"), ("b/c", "two")]);
    let workspace = place.workspace();
    let first = workspace.stage("demo", &source).await.unwrap();
    let inode = || std::fs::metadata(workspace.path().join("skills/demo/a")).unwrap().ino();
    let before = inode();
    for _ in 0..3 {
        let again = place.workspace().stage("demo", &source).await.unwrap();
        assert_eq!((again.copied, &again.digest), (0, &first.digest));
    }
    // New times, same contents.
    let file = std::fs::File::options().write(true).open(place.path("skills/demo/a")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(workspace.stage("demo", &source).await.unwrap().copied, 0);
    assert_eq!(inode(), before);
}

#[tokio::test]
async fn every_change_is_seen() {
    let place = Place::new();
    let source = place.skill("demo", &[("a", "one"), ("b", "two")]);
    let workspace = place.workspace();
    let path = |name: &str| place.path(&format!("skills/demo/{name}"));
    let changes: [&dyn Fn(); 7] = [
        &|| {},
        // Same size, changed at once.
        &|| std::fs::write(path("a"), "eno").unwrap(),
        &|| std::fs::write(path("new"), "").unwrap(),
        &|| std::fs::remove_file(path("b")).unwrap(),
        &|| set_mode(path("a"), 0o755),
        &|| std::fs::create_dir(path("directory")).unwrap(),
        &|| std::fs::rename(path("new"), path("renamed")).unwrap(),
    ];
    for (number, change) in changes.iter().enumerate() {
        change();
        assert!(workspace.stage("demo", &source).await.unwrap().copied > 0, "change {number}");
        assert_eq!(workspace.stage("demo", &source).await.unwrap().copied, 0, "change {number}");
    }
    let at = workspace.path().join("skills/demo");
    assert_eq!(read(at.join("a")), "eno");
    assert_eq!(tree(&at), ["SKILL.md", "a", "directory", "inputs", "out", "renamed", "work"]);
}

#[tokio::test]
async fn a_change_too_quick_for_the_clock_is_seen() {
    let place = Place::new();
    let source = place.skill("demo", &[("a", "0000")]);
    let workspace = place.workspace();
    // Changed in place with the same size: only the times differ, and their clock is slower than this loop.
    for round in 0..200 {
        let text = format!("{round:04}");
        place.file("skills/demo/a", &text);
        workspace.stage("demo", &source).await.unwrap();
        assert_eq!(read(workspace.path().join("skills/demo/a")), text);
    }
}

#[tokio::test]
async fn what_was_tampered_with_as_a_whole_is_staged_anew() {
    let place = Place::new();
    let source = place.skill("demo", &[("a", "one")]);
    let workspace = place.workspace();
    workspace.stage("demo", &source).await.unwrap();
    let at = workspace.path().join("skills/demo");
    std::fs::rename(&at, workspace.path().join("skills/aside")).unwrap();
    std::fs::create_dir(&at).unwrap();
    std::fs::write(at.join("a"), "evil").unwrap();
    assert!(workspace.stage("demo", &source).await.unwrap().copied > 0);
    assert_eq!(read(at.join("a")), "one");
}

/// The approved version runs: a newer one is staged beside it, and replaces it when nothing runs.
#[tokio::test]
async fn a_run_in_progress_keeps_what_it_had() {
    let place = Place::new();
    let source = place.skill("demo", &[("a", "old")]);
    let workspace = place.workspace();
    let own = |directory: &str, name: &str| workspace.path().join(directory).join(name);
    let running = workspace.stage("demo", &source).await.unwrap();
    assert_eq!(running.directory, "skills/demo");
    place.file("skills/demo/a", "newer");
    let next = workspace.stage("demo", &source).await.unwrap();
    let same = workspace.stage("demo", &source).await.unwrap();
    assert_eq!((same.copied, &same.directory, &same.digest), (0, &next.directory, &next.digest));
    assert_ne!((&next.directory, &next.digest), (&running.directory, &running.digest));
    place.file("skills/demo/a", "newest");
    let last = workspace.stage("demo", &source).await.unwrap();
    for (staged, text) in [(&running, "old"), (&next, "newer"), (&last, "newest")] {
        assert_eq!(read(own(&staged.directory, "a")), text);
        assert!(own(&staged.directory, "out").is_dir(), "its links still lead to the workspace");
    }
    drop((running, next, same, last));
    let after = workspace.stage("demo", &source).await.unwrap();
    assert_eq!((after.directory.as_str(), read(own("skills/demo", "a")).as_str()), ("skills/demo", "newest"));
    let skills: Vec<_> = std::fs::read_dir(workspace.path().join("skills")).unwrap().collect();
    assert_eq!(skills.len(), 1, "old versions go when nobody needs them");
    assert_eq!(workspace.stage("demo", &source).await.unwrap().copied, 0);
}

#[tokio::test]
async fn links_within_become_files_and_others_are_left_out() {
    let place = Place::new();
    let source = place.skill("demo", &[("real/a", "text")]);
    let at = |name: &str| place.path(&format!("skills/demo/{name}"));
    place.file("secret", "secret");
    symlink("real/a", at("file-link")).unwrap();
    symlink("real", at("directory-link")).unwrap();
    symlink("../../secret", at("outward")).unwrap();
    symlink(place.path("secret"), at("absolute")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("..", at("real/up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let workspace = place.workspace();
    let staged = workspace.stage("demo", &source).await.unwrap();
    let to = workspace.path().join("skills/demo");
    assert_eq!(read(to.join("file-link")), "text");
    assert!(!to.join("file-link").is_symlink() && !to.join("directory-link").is_symlink());
    assert_eq!(read(to.join("directory-link/a")), "text");
    for gone in ["outward", "absolute", "dangling", "pipe"] {
        assert!(to.join(gone).symlink_metadata().is_err(), "{gone}");
        assert!(
            staged
                .warnings
                .iter()
                .any(|warning| matches!(warning, RunWarning::NotStaged { path, .. } if path == gone)),
            "{gone}"
        );
    }
    assert!(!tree(&to).iter().any(|path| path.contains("up/real/up")), "loops end: {:?}", tree(&to));
}

#[tokio::test]
async fn a_skill_keeps_its_own_out_with_a_warning() {
    let place = Place::new();
    let source = place.skill("demo", &[("out/example.txt", "text")]);
    std::fs::create_dir(place.path("skills/demo/inputs")).unwrap();
    let workspace = place.workspace();
    for _ in 0..2 {
        let staged = workspace.stage("demo", &source).await.unwrap();
        assert_eq!(
            said(&staged.warnings),
            [
                "the skill's own `out` hides the workspace's, which is `$WORKSPACE_DIR/out`; outputs are collected \
                 from the workspace only",
                "the skill's own `inputs` hides the workspace's, which is `$WORKSPACE_DIR/work/inputs`; outputs are \
                 collected from the workspace only",
            ]
        );
    }
    let at = workspace.path().join("skills/demo");
    assert!(at.join("out/example.txt").is_file() && at.join("work").is_symlink());
}

#[tokio::test]
async fn skills_that_are_too_large_are_refused() {
    let place = Place::new();
    let source = place.skill("demo", &[]);
    let huge = std::fs::File::create(place.path("skills/demo/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let workspace = place.workspace();
    let refused = workspace.stage("demo", &source).await.unwrap_err().to_string();
    assert_eq!(refused, "the skill `demo` has more than 268435456 bytes: too large to stage");
    std::fs::remove_file(place.path("skills/demo/huge")).unwrap();
    std::fs::create_dir(place.path("skills/demo/many")).unwrap();
    for number in 0..=MAX_SKILL_FILES {
        std::fs::File::create(place.path(&format!("skills/demo/many/{number}"))).unwrap();
    }
    let refused = workspace.stage("demo", &source).await.unwrap_err();
    assert!(matches!(refused, WorkspaceError::SkillTooLarge { of: "files", .. }), "{refused}");
    assert_eq!(tree(&workspace.path().join("skills")), Vec::<String>::new(), "nothing is left of it");
}

#[tokio::test]
async fn names_that_are_no_directory_are_refused() {
    let place = Place::new();
    let source = place.skill("demo", &[]);
    let workspace = place.workspace();
    for name in ["", ".", "..", "a/b", "/etc", ".hidden", "a\0b", "a\nb", "a b", &"long".repeat(20)] {
        let refused = workspace.stage(name, &source).await.unwrap_err();
        assert!(matches!(refused, WorkspaceError::SkillName(_)), "{name:?}");
    }
    for name in ["python_math", "数据", "a.b-c"] {
        workspace.stage(name, &source).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_stage_the_same_skill_at_the_same_time() {
    let place = Arc::new(Place::new());
    let source = place.skill("demo", &[("a", "0000"), ("b", "0000")]);
    let staging: Vec<_> = (0..8)
        .map(|number| {
            let (place, source) = (Arc::clone(&place), source.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    if number == 0 {
                        place.file("skills/demo/a", format!("{round:04}"));
                    }
                    let workspace = place.workspace();
                    workspace.stage("demo", &source).await.unwrap();
                    assert_eq!(read(workspace.path().join("skills/demo/b")), "0000");
                }
            })
        })
        .collect();
    for one in staging {
        one.await.unwrap();
    }
    let workspace = place.workspace();
    workspace.stage("demo", &source).await.unwrap();
    assert_eq!(read(workspace.path().join("skills/demo/a")), "0009");
    assert_eq!(std::fs::read_dir(workspace.path().join("skills")).unwrap().count(), 1);
}

/// Files that are not on the disk, with a count of their reads.
struct Elsewhere {
    stamp: Option<&'static str>,
    text: &'static str,
    reads: AtomicUsize,
}

#[async_trait]
impl StageFiles for Elsewhere {
    async fn list(&self) -> io::Result<SkillListing> {
        let path = InnerPath::parse("scripts/a.sh").unwrap();
        let stamp = self.stamp.map(ToOwned::to_owned);
        let file = StageFile { path, size: self.text.len() as u64, executable: true, stamp };
        Ok(SkillListing { files: vec![file], ..SkillListing::default() })
    }

    async fn read(&self, _: &InnerPath, _: u64) -> io::Result<Option<Bytes>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Bytes::from_static(self.text.as_bytes())))
    }
}

#[tokio::test]
async fn files_from_elsewhere_are_staged_and_read_once() {
    let place = Place::new();
    let workspace = place.workspace();
    let stage = async |stamp, text| {
        let files = Arc::new(Elsewhere { stamp, text, reads: AtomicUsize::new(0) });
        let source = StageSource::Files(Arc::clone(&files) as Arc<dyn StageFiles>);
        let staged = workspace.stage("far", &source).await.unwrap();
        (staged.copied, files.reads.load(Ordering::Relaxed))
    };
    assert_eq!(stage(Some("1"), "one").await, (1, 1));
    assert_eq!(stage(Some("1"), "one").await, (0, 0), "nothing is read while the stamp is the same");
    assert_eq!(stage(Some("2"), "one").await, (0, 1), "nothing is copied while the contents are the same");
    assert_eq!(stage(None, "one").await, (0, 1));
    assert_eq!(stage(Some("3"), "two").await, (1, 1));
    assert_eq!(read(workspace.path().join("skills/far/scripts/a.sh")), "two");
    assert_eq!(mode(workspace.path().join("skills/far/scripts/a.sh")), 0o555);
}

/// Two files that change between the reads of the first and the second, this many times.
struct Moving {
    version: AtomicUsize,
    times: usize,
}

#[async_trait]
impl StageFiles for Moving {
    async fn list(&self) -> io::Result<SkillListing> {
        let stamp = Some(self.version.load(Ordering::Relaxed).to_string());
        let file = |path| StageFile {
            path: InnerPath::parse(path).unwrap(),
            size: 1,
            executable: false,
            stamp: stamp.clone(),
        };
        Ok(SkillListing { files: vec![file("a"), file("b")], ..SkillListing::default() })
    }

    async fn read(&self, path: &InnerPath, _: u64) -> io::Result<Option<Bytes>> {
        let version = self.version.load(Ordering::Relaxed);
        if path.as_str() == "a" && version < self.times {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(Bytes::from(version.to_string())))
    }
}

#[tokio::test]
async fn files_that_change_while_they_are_staged_are_no_mix() {
    let place = Place::new();
    let workspace = place.workspace();
    let stage = async |times| {
        let files = Arc::new(Moving { version: AtomicUsize::new(0), times });
        workspace.stage(&format!("far-{times}"), &StageSource::Files(files)).await
    };
    for times in [0, 1, 2] {
        let staged = stage(times).await.unwrap();
        let text = |name| read(workspace.path().join(&staged.directory).join(name));
        assert_eq!(["a", "b"].map(text), [times.to_string(), times.to_string()]);
    }
    let refused = stage(3).await.unwrap_err().to_string();
    assert!(refused.contains("changed while it was staged; try again"), "{refused}");
    assert!(!workspace.path().join("skills/far-3").exists());
}
