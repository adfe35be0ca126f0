//! Skills in backends: the same catalog as from the disk, in as few calls as can be.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::memory::InMemory;
use prowess_backend::{
    Backend, BackendError, CompositeBackend, Contents, Edit, Edited, Entry, GlobQuery, GlobReport, Listing,
    LocalBackend, MemoryBackend, ObjectBackend, ReadRange, VirtualPath, WriteMode,
};
use prowess_catalog::resource::ResourceKind;
use prowess_catalog::skill::MAX_MANIFEST;
use prowess_catalog::{
    Catalog, Code, LiveCatalog, ReadError, RefreshPolicy, Root, RootKind, ScanOptions, scan_backend,
};

use crate::tree::{Tree, block_on, fill, manifest, names, options};

/// The tree that every backend holds: good, bad and misplaced manifests.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let skill = |name: &str| manifest(name, &format!("Looks after {name}. Use it when asked.")).into_bytes();
    vec![
        ("/skills/a/SKILL.md", skill("a")),
        ("/skills/a/scripts/run.sh", b"echo".to_vec()),
        ("/skills/a/scripts/lib/deep/er.py", b"1".to_vec()),
        ("/skills/a/references/notes.md", b"Notes.".to_vec()),
        ("/skills/a/LICENSE", b"MIT".to_vec()),
        ("/skills/a/other/deep.txt", b"x".to_vec()),
        ("/skills/group/b/SKILL.md", skill("b")),
        ("/skills/group/mine/SKILL.md", skill("yours")),
        ("/skills/twin/SKILL.md", skill("a")),
        ("/skills/plain/SKILL.md", b"No frontmatter.".to_vec()),
        ("/skills/latin/SKILL.md", b"---\nname: latin\ndescription: Caf\xE9 notes.\n---\n".to_vec()),
        ("/skills/lower/skill.md", skill("lower")),
        ("/skills/node_modules/c/SKILL.md", skill("c")),
        ("/skills/.hidden/d/SKILL.md", skill("d")),
        ("/skills/1/2/3/4/5/6/7/SKILL.md", skill("deep")),
        ("/skills/README.md", b"Not a skill.".to_vec()),
    ]
}

async fn scanned(backend: &dyn Backend, options: &ScanOptions) -> Catalog {
    let scan = scan_backend(backend, &Root::explicit("/skills").into(), options, None).await;
    Catalog::empty().assembled(vec![scan])
}

/// What was found and reported, with paths below `base`.
fn told(catalog: &Catalog, base: &Path) -> Vec<String> {
    let base = base.to_str().unwrap();
    let entries = catalog.entries().iter().map(|entry| {
        let skill = &entry.skill;
        format!("{} {} {}", skill.name, skill.location.as_str().replace(base, ""), skill.description)
    });
    // How a cap on depth is placed differs: a walk sees a directory, a search the file in it.
    let mut findings: Vec<String> = catalog
        .diagnostics()
        .map(|found| match found.code {
            Code::DepthCap => found.code.to_string(),
            code => format!("{code} {}", found.file.replace(base, "")),
        })
        .collect();
    findings.sort();
    entries.chain(findings).collect()
}

#[test]
fn every_backend_gives_the_catalog_of_the_disk() {
    let tree = Tree::new();
    files().iter().for_each(|(path, contents)| tree.write(path.trim_start_matches('/'), contents));
    let local = Catalog::discover(&[Root::explicit(tree.join("skills"))], &ScanOptions::default());
    let expected = told(&local, tree.path());
    assert_eq!(names(&local), ["a", "b", "yours"]);

    block_on(async {
        let root = VirtualPath::root();
        let inner = Arc::new(MemoryBackend::new());
        let relative: Vec<_> = files()
            .into_iter()
            .map(|(path, contents)| (path.strip_prefix("/skills").unwrap(), contents))
            .collect();
        fill(&*inner, &relative).await;
        let mount = VirtualPath::parse("/skills").unwrap();
        let composite = CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(mount, inner);
        let memory = MemoryBackend::new();
        fill(&memory, &files()).await;
        let object = ObjectBackend::new(Arc::new(InMemory::new()), root);
        fill(&object, &files()).await;
        let disk = LocalBackend::open(tree.path()).unwrap();

        let backends: [&dyn Backend; 4] = [&memory, &object, &disk, &composite];
        for backend in backends {
            let catalog = scanned(backend, &ScanOptions::default()).await;
            assert_eq!(told(&catalog, Path::new("/nowhere")), expected, "{backend:?}");
        }
    });
}

#[test]
fn nested_skills_and_roots_that_are_skills_follow_the_same_rules() {
    block_on(async {
        let backend = MemoryBackend::new();
        let skill = |name| manifest(name, "Looks after something. Use it.").into_bytes();
        let all =
            [("/skills/outer/SKILL.md", skill("outer")), ("/skills/outer/inner/SKILL.md", skill("inner"))];
        fill(&backend, &all).await;
        let stopped = scanned(&backend, &ScanOptions::default()).await;
        assert_eq!(names(&stopped), ["outer"]);
        let nested = scanned(&backend, &options(|options| options.nested = true)).await;
        assert_eq!(names(&nested), ["inner", "outer"]);

        for (kind, found) in [(RootKind::Explicit, vec!["outer"]), (RootKind::User, vec!["inner"])] {
            let root = Arc::new(Root::new("/skills/outer", kind, "One"));
            let scan = scan_backend(&backend, &root, &ScanOptions::default(), None).await;
            assert_eq!(names(&Catalog::empty().assembled(vec![scan])), found);
        }
        let few = scanned(&backend, &options(|options| options.max_skills = 1)).await;
        assert!(few.diagnostics().any(|found| found.code == Code::SkillCap));
    });
}

/// Counts what is asked of a backend, and fails when told to.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryBackend,
    calls: Mutex<Vec<String>>,
    failing: bool,
}

impl Counting {
    fn called(&self, call: impl Into<String>) -> prowess_backend::Result<()> {
        self.calls.lock().unwrap().push(call.into());
        if self.failing {
            Err(BackendError::Conflict { path: VirtualPath::root(), attempts: 1 })
        } else {
            Ok(())
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

#[async_trait]
impl Backend for Counting {
    async fn ls(&self, path: &VirtualPath) -> prowess_backend::Result<Listing> {
        self.called(format!("ls {path}"))?;
        self.inner.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> prowess_backend::Result<Entry> {
        self.called(format!("stat {path}"))?;
        self.inner.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> prowess_backend::Result<Contents> {
        self.called(format!("read {path}"))?;
        self.inner.read(path, range).await
    }

    async fn read_many(&self, paths: &[VirtualPath], max: u64) -> Vec<prowess_backend::Result<Contents>> {
        let shown: Vec<&str> = paths.iter().map(VirtualPath::as_str).collect();
        self.calls.lock().unwrap().push(format!("read_many {}", shown.join(" ")));
        self.inner.read_many(paths, max).await
    }

    async fn write(
        &self,
        path: &VirtualPath,
        bytes: Bytes,
        mode: WriteMode,
    ) -> prowess_backend::Result<Entry> {
        self.inner.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> prowess_backend::Result<Entry> {
        self.inner.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> prowess_backend::Result<Edited> {
        self.inner.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> prowess_backend::Result<()> {
        self.inner.delete(path).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> prowess_backend::Result<GlobReport> {
        self.called(format!("glob {base}"))?;
        self.inner.glob(base, query).await
    }
}

#[test]
fn a_scan_is_one_search_and_one_batch_and_a_refresh_reads_what_changed() {
    block_on(async {
        let backend = Counting::default();
        let skill = |name: &str| manifest(name, "Looks after something. Use it.").into_bytes();
        fill(&backend, &[("/skills/a/SKILL.md", skill("a")), ("/skills/g/b/SKILL.md", skill("b"))]).await;
        let root = Arc::new(Root::explicit("/skills").in_backend());
        let options = ScanOptions::default();
        let first = Catalog::empty().assembled(vec![scan_backend(&backend, &root, &options, None).await]);
        assert_eq!(backend.take(), ["glob /skills", "read_many /skills/a/SKILL.md /skills/g/b/SKILL.md"]);

        let again = scan_backend(&backend, &root, &options, first.scan_of(&root)).await;
        assert!(first.assembled(vec![again]).is_same(&first));
        assert_eq!(backend.take(), ["glob /skills"]);

        fill(&backend, &[("/skills/g/b/SKILL.md", skill("b").to_ascii_lowercase())]).await;
        let scan = scan_backend(&backend, &root, &options, first.scan_of(&root)).await;
        let second = first.assembled(vec![scan]);
        assert_eq!(backend.take(), ["glob /skills", "read_many /skills/g/b/SKILL.md"]);
        assert_eq!(first.diff(&second).changed, ["b"]);
        assert!(Arc::ptr_eq(first.get("a").unwrap(), second.get("a").unwrap()));
    });
}

#[test]
fn a_failing_backend_is_a_diagnostic() {
    block_on(async {
        let failing = Counting { failing: true, ..Counting::default() };
        let catalog = scanned(&failing, &ScanOptions::default()).await;
        let codes: Vec<Code> = catalog.diagnostics().map(|found| found.code).collect();
        assert_eq!((codes, catalog.roots().count()), (vec![Code::Unreadable], 0));

        let missing = scanned(&MemoryBackend::new(), &ScanOptions::default()).await;
        let codes: Vec<Code> = missing.diagnostics().map(|found| found.code).collect();
        assert_eq!(codes, [Code::RootMissing]);

        let root = Arc::new(Root::explicit("../outside"));
        let scan = scan_backend(&MemoryBackend::new(), &root, &ScanOptions::default(), None).await;
        assert_eq!(Catalog::empty().assembled(vec![scan]).diagnostics().count(), 1);
    });
}

#[test]
fn texts_and_files_come_from_the_backend() {
    block_on(async {
        let backend = Counting::default();
        fill(&backend, &files()).await;
        let catalog = scanned(&backend, &ScanOptions::default()).await;
        let entry = catalog.get("a").unwrap();
        backend.take();
        let text = entry.read_text_in(&backend).await.unwrap();
        assert_eq!((text.body(), text.changed), ("Follow the steps.", false));
        assert_eq!(backend.take(), ["read /skills/a/SKILL.md"]);

        let resources = entry.resources_in(&backend, 1).await;
        let shown: Vec<_> =
            resources.files.iter().map(|file| (file.path.as_str(), file.kind, file.size.unwrap())).collect();
        assert_eq!(
            shown,
            [
                ("LICENSE", ResourceKind::Other, 3),
                ("references/notes.md", ResourceKind::Reference, 6),
                ("scripts/run.sh", ResourceKind::Script, 4),
            ]
        );
        assert_eq!(resources.counts().to_string(), "1 other, 1 reference, 1 script");
        let mut listed = backend.take();
        listed.sort();
        assert_eq!(listed, ["ls /skills/a", "ls /skills/a/references", "ls /skills/a/scripts"]);
        for (depth, files) in [(0, 3), (1, 3), (2, 3), (3, 4), (usize::MAX, 4)] {
            assert_eq!(entry.resources_in(&backend, depth).await.files.len(), files, "{depth}");
        }
        backend.take();

        let rewrite = async |contents: Vec<u8>| {
            fill(&backend, &[("/skills/a/SKILL.md", contents)]).await;
            entry.read_text_in(&backend).await
        };
        let edited = manifest("a", "Looks after a. Use it when asked.") + "More.\n";
        assert!(rewrite(edited.into()).await.unwrap().changed);
        let renamed = rewrite(manifest("z", "Looks after z. Use it when asked.").into()).await;
        assert!(matches!(renamed, Err(ReadError::Renamed { .. })));
        let large = rewrite(vec![b' '; usize::try_from(MAX_MANIFEST).unwrap() + 1]).await;
        assert!(matches!(large, Err(ReadError::TooLarge { .. })));
        let gone = catalog.get("b").unwrap();
        backend.delete(&VirtualPath::parse("/skills/group/b/SKILL.md").unwrap()).await.unwrap();
        assert!(matches!(gone.read_text_in(&backend).await, Err(ReadError::Io { .. })));
        assert!(matches!(gone.read_text(), Err(ReadError::NotLocal { .. })));
    });
}

#[test]
fn a_backend_is_never_taken_for_the_local_disk() {
    block_on(async {
        let tree = Tree::new().skill("skills/here");
        let backend = MemoryBackend::new();
        let directory = tree.join("skills").to_string_lossy().into_owned();
        let manifest = format!("{directory}/here/SKILL.md");
        let text = "---\nname: here\ndescription: From memory. Use for tests.\n---\nBody.\n";
        backend
            .write(&VirtualPath::parse(&manifest).unwrap(), text.into(), WriteMode::Replace)
            .await
            .unwrap();

        let root = Root::explicit(&directory).in_backend();
        let local = Root::new(tree.join("elsewhere"), RootKind::User, "User");
        let options = ScanOptions::default();
        let live = LiveCatalog::new(vec![local, root.clone()], options.clone(), RefreshPolicy::OnRequest);
        assert_eq!(live.snapshot().entries().len(), 0, "nobody looked into the backend yet");

        let diff = live.put_scan(scan_backend(&backend, &Arc::new(root.clone()), &options, None).await);
        assert_eq!(diff.added, ["here"]);
        assert!(live.refresh().is_empty(), "a refresh leaves the backend's skills alone");
        let snapshot = live.snapshot();
        let entry = snapshot.get("here").unwrap();
        assert_eq!(entry.skill.description, "From memory. Use for tests.");
        assert!(matches!(entry.read_text(), Err(ReadError::NotLocal { .. })));
        assert_eq!(entry.resources(1).diagnostics.len(), 1);
        assert_eq!(entry.read_text_in(&backend).await.unwrap().body(), "Body.");

        backend.delete(&VirtualPath::parse(&manifest).unwrap()).await.unwrap();
        let scan = scan_backend(&backend, &Arc::new(root.clone()), &options, snapshot.scan_of(&root)).await;
        assert_eq!(live.put_scan(scan).removed, ["here"]);
    });
}
