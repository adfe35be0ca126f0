//! Tests of inputs.

use std::path::Path;

use prowess_workspace::input::{InputPaths, StagedInputs};
use prowess_workspace::{
    ArtifactName, ArtifactStore, Artifacts, InputMode, RunInput, Workspace, WorkspaceError,
};

use crate::place::{Place, mode, put, said, set_mode, tree};

const NOTHING: InputPaths = InputPaths(Vec::new());

fn anything(_: &Path) -> bool {
    true
}

fn input(from: impl Into<String>, to: &str, mode: InputMode) -> RunInput {
    let to = (!to.is_empty()).then(|| to.to_owned());
    RunInput { from: from.into(), to, mode }
}

async fn stage(workspace: &Workspace, inputs: &[RunInput]) -> Result<StagedInputs, WorkspaceError> {
    workspace.stage_inputs(inputs, None, &anything).await
}

fn read(workspace: &Workspace, path: &str) -> String {
    std::fs::read_to_string(workspace.path().join(path)).unwrap()
}

#[tokio::test]
async fn each_scheme_is_copied_to_its_place() {
    let place = Place::new();
    let workspace = place.workspace();
    let artifacts = Artifacts::in_memory();
    let name = ArtifactName::parse("deep/data.csv").unwrap();
    for text in ["first", "second"] {
        artifacts.save(&name, text.into(), "text/csv").await.unwrap();
    }
    let host = place.file("host/notes.txt", "notes");
    put(&workspace, "out/earlier.txt", "earlier");
    let _skill = workspace.stage("demo", &place.skill("demo", &[("assets/logo", "logo")])).await.unwrap();
    let inputs = [
        RunInput::copy("artifact://deep/data.csv"),
        input("artifact://deep/data.csv@0", "work/first.csv", InputMode::Copy),
        RunInput::copy(format!("host://{}", host.display())),
        RunInput::copy("workspace://out/earlier.txt"),
        input("skill://demo/assets/logo", "$WORK_DIR/own/", InputMode::Copy),
    ];
    let staged = workspace.stage_inputs(&inputs, Some(&artifacts), &anything).await.unwrap();
    assert_eq!((staged.read_only.len(), staged.warnings.len()), (0, 0));
    for (path, text) in [
        ("work/inputs/data.csv", "second"),
        ("work/first.csv", "first"),
        ("work/inputs/notes.txt", "notes"),
        ("work/inputs/earlier.txt", "earlier"),
        ("work/own/logo", "logo"),
    ] {
        assert_eq!(read(&workspace, path), text, "{path}");
        assert_eq!(mode(workspace.path().join(path)), 0o644, "{path}: a copy may be changed");
    }
}

#[tokio::test]
async fn links_stay_inside_and_the_hosts_are_bound() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/a", "text");
    let _skill = workspace.stage("demo", &place.skill("demo", &[("assets/logo", "logo")])).await.unwrap();
    let (file, directory) = (place.file("host/file", "text"), place.path("host"));
    let artifacts = Artifacts::in_memory();
    artifacts.save(&ArtifactName::parse("a").unwrap(), "text".into(), "text/plain").await.unwrap();
    let inputs = [
        input("workspace://out/a", "work/x/y/a", InputMode::Link),
        input("skill://demo/assets", "", InputMode::Link),
        input(format!("host://{}", file.display()), "", InputMode::Link),
        input(format!("host://{}", directory.display()), "work/data", InputMode::Link),
        input("artifact://a", "", InputMode::Link),
    ];
    let staged = workspace.stage_inputs(&inputs, Some(&artifacts), &anything).await.unwrap();
    let link = |path: &str| std::fs::read_link(workspace.path().join(path)).unwrap();
    assert_eq!(link("work/x/y/a").to_str(), Some("../../../out/a"));
    assert_eq!(link("work/inputs/assets").to_str(), Some("../../skills/demo/assets"));
    assert_eq!(read(&workspace, "work/inputs/assets/logo"), "logo");
    let bound = [(file, "work/inputs/file".to_owned()), (directory, "work/data".to_owned())];
    assert_eq!(staged.read_only, bound);
    assert_eq!(said(&staged.warnings), ["`artifact://a` was copied, because an artifact cannot be linked"]);
    assert_eq!(read(&workspace, "work/inputs/a"), "text");
    // Only the placeholders of local files are removed.
    drop(staged);
    assert_eq!(
        tree(&workspace.path().join("work")),
        ["inputs", "inputs/a", "inputs/assets", "x", "x/y", "x/y/a"]
    );
    // A second run can do the same.
    stage(&workspace, &inputs[..4]).await.unwrap();
}

#[tokio::test]
async fn what_a_link_is_bound_over_is_its_runs_alone() {
    let place = Place::new();
    let workspace = place.workspace();
    let file = format!("host://{}", place.file("host/file", "text").display());
    let directory = format!("host://{}", place.path("host").display());
    let inputs =
        [input(&file, "work/inputs/a", InputMode::Link), input(&directory, "work/d", InputMode::Link)];
    let first = stage(&workspace, &inputs).await.unwrap();
    for one in &inputs {
        let refused = stage(&workspace, std::slice::from_ref(one)).await.unwrap_err().to_string();
        assert!(refused.contains("exists already; give another `to`"), "{refused}");
    }
    let both = ["d", "inputs", "inputs/a"];
    assert_eq!(tree(&workspace.path().join("work")), both, "a refusal takes nothing from the first run");
    let another = first.clone();
    drop(first);
    assert_eq!(tree(&workspace.path().join("work")), both);
    // Another file took its place, and belongs to somebody else.
    put(&workspace, "work/inputs/new", "");
    std::fs::rename(workspace.path().join("work/inputs/new"), workspace.path().join("work/inputs/a"))
        .unwrap();
    drop(another);
    assert_eq!(tree(&workspace.path().join("work")), ["inputs", "inputs/a"]);
    // An existing directory also belongs to somebody else.
    std::fs::create_dir(workspace.path().join("work/d")).unwrap();
    for one in &inputs {
        stage(&workspace, std::slice::from_ref(one)).await.unwrap_err();
    }
    assert_eq!(tree(&workspace.path().join("work")), both);
}

#[tokio::test]
async fn nothing_is_linked_that_another_user_could_replace() {
    let place = Place::new();
    let workspace = place.workspace();
    let file = format!("host://{}", place.file("host/open/deep/file", "text").display());
    let open = place.path("host/open");
    let stage = async |way| stage(&workspace, &[input(&file, "work/file", way)]).await;
    for (mode, is_linked) in [(0o755, true), (0o757, false), (0o777, false), (0o1777, true)] {
        set_mode(&open, mode);
        match stage(InputMode::Link).await {
            Ok(_) => assert!(is_linked, "{mode:o}"),
            Err(refused) => {
                let refused = refused.to_string();
                assert!(!is_linked, "{mode:o}: {refused}");
                assert!(refused.contains("use the mode `copy`"), "{refused}");
                assert!(refused.contains(open.to_str().unwrap()), "{refused}");
                assert!(!workspace.path().join("work/file").exists());
            }
        }
        stage(InputMode::Copy).await.unwrap();
        std::fs::remove_file(workspace.path().join("work/file")).unwrap();
    }
    // Write access for the group is safe if the group is ours.
    set_mode(&open, 0o775);
    stage(InputMode::Link).await.unwrap();
    if rustix::process::geteuid().is_root() {
        let give = |path: &Path, user, group| std::os::unix::fs::chown(path, user, group).unwrap();
        give(&open, None, Some(65534));
        stage(InputMode::Link).await.unwrap_err();
        // The owner of a directory can always write to it.
        set_mode(&open, 0o755);
        stage(InputMode::Link).await.unwrap();
        give(&open, Some(65534), None);
        stage(InputMode::Link).await.unwrap_err();
        // In a sticky directory, only the owner can replace an entry.
        give(&open, Some(0), None);
        set_mode(&open, 0o1777);
        give(&open.join("deep/file"), Some(65534), None);
        stage(InputMode::Link).await.unwrap();
        give(&open.join("deep"), Some(65534), None);
        stage(InputMode::Link).await.unwrap_err();
    }
}

#[tokio::test]
async fn directories_are_copied_without_links_and_specials() {
    let place = Place::new();
    let workspace = place.workspace();
    place.file("host/data/a/b.txt", "text");
    place.file("host/data/run.sh", "text");
    set_mode(place.path("host/data/run.sh"), 0o4755);
    std::os::unix::fs::symlink("/etc/shadow", place.path("host/data/link")).unwrap();
    let pipe = place.path("host/data/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let from = format!("host://{}", place.path("host/data").display());
    let staged = stage(&workspace, &[RunInput::copy(&from)]).await.unwrap();
    let at = workspace.path().join("work/inputs/data");
    assert_eq!(tree(&at), ["a", "a/b.txt", "run.sh"]);
    assert_eq!(mode(at.join("run.sh")), 0o755);
    assert_eq!(staged.warnings.len(), 2, "{:?}", staged.warnings);
    // An input never replaces a directory.
    std::fs::write(at.join("own"), "kept").unwrap();
    let refused = stage(&workspace, &[RunInput::copy(&from)]).await.unwrap_err().to_string();
    assert!(refused.contains("is a directory; give another"), "{refused}");
    assert_eq!(tree(&at), ["a", "a/b.txt", "own", "run.sh"]);
}

#[tokio::test]
async fn a_copy_takes_the_place_of_a_file_or_a_link_and_not_of_what_it_leads_to() {
    let place = Place::new();
    let workspace = place.workspace();
    let outside = place.file("outside", "outside");
    put(&workspace, "work/inputs/a", "old");
    std::os::unix::fs::symlink(&outside, workspace.path().join("work/inputs/b")).unwrap();
    put(&workspace, "out/a", "new");
    let inputs =
        [RunInput::copy("workspace://out/a"), input("workspace://out/a", "work/inputs/b", InputMode::Copy)];
    stage(&workspace, &inputs).await.unwrap();
    assert_eq!(
        (read(&workspace, "work/inputs/a"), read(&workspace, "work/inputs/b")),
        ("new".into(), "new".into())
    );
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "outside");
}

#[tokio::test]
async fn refusals_say_what_to_do_and_nothing_is_staged() {
    let place = Place::new();
    let workspace = place.workspace();
    put(&workspace, "out/a", "text");
    std::os::unix::fs::symlink("a", workspace.path().join("out/link")).unwrap();
    for (from, to, expected) in [
        ("out/a", "", "it has no scheme"),
        ("ftp://out/a", "", "`ftp://` is not a scheme for inputs"),
        ("workspace://out/a", "/etc/x", "it is absolute"),
        ("workspace://out/a", "skills/x", "skills are read-only"),
        ("workspace://out/a", "work", "is a directory; give another"),
        ("workspace://out/a", "out/a/b", "`out/a/b` lies inside the input"),
        ("workspace://out/a", "out/a", "`out/a` lies inside the input"),
        ("workspace://out", "out/inner", "`out/inner` lies inside the input"),
        ("workspace://out/gone", "", "No such file"),
        ("workspace://out/link", "", "it is a link"),
        ("artifact://a", "", "artifacts are not configured"),
        ("host:///no/such/file", "", "it cannot be opened"),
        ("host:///dev/zero", "", "it is a device"),
    ] {
        let before = tree(workspace.path());
        // The first input is valid, but all are checked before it is staged.
        let refused = stage(&workspace, &[input(from, to, InputMode::Copy)]).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{from} {to}: {refused}");
        assert_eq!(tree(workspace.path()), before, "{from} {to}");
    }
    let inputs = [RunInput::copy("workspace://out/a"), RunInput::copy("nonsense")];
    stage(&workspace, &inputs).await.unwrap_err();
    assert!(!workspace.path().join("work/inputs/a").exists(), "all are checked before the first is touched");
}

#[tokio::test]
async fn inputs_are_bounded() {
    let place = Place::new();
    let workspace = place.workspace();
    let huge = place.file("huge", "");
    std::fs::File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    let refused =
        stage(&workspace, &[RunInput::copy(format!("host://{}", huge.display()))]).await.unwrap_err();
    assert!(refused.to_string().contains("more than 256 MiB"), "{refused}");
    let many = vec![RunInput::copy("workspace://out/a"); 101];
    let refused = stage(&workspace, &many).await.unwrap_err();
    assert!(refused.to_string().contains("more than 100 inputs"), "{refused}");
    assert_eq!(tree(&workspace.path().join("work")), ["inputs"]);
}

#[tokio::test]
async fn nothing_of_the_host_comes_in_by_default() {
    let place = Place::new();
    let file = place.file("host/a", "text");
    let inputs = [RunInput::copy(format!("host://{}", file.display()))];
    let refused = place.workspace().stage_inputs(&inputs, None, &NOTHING).await.unwrap_err();
    assert!(refused.to_string().contains("reading the local file"), "{refused}");
}
