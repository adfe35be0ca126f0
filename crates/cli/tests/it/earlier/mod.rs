//! What an earlier version left behind is opened by this one, and goes on.
//!
//! `tests/fixtures/VERSION` has a home and a project as that version left them. Questions, approvals, trust and saved
//! sessions are bound to absolute paths, and some of them by digests of those paths. So the files are put back to exactly
//! where they were written, one test at a time. `writing.rs` says how they come about.

mod kept;
mod questions;
mod renewed;
mod threads;
mod writing;

use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::model::{Answer, FakeModel};
use crate::world::World;

/// Where the fixtures were written, and where they are put.
const PLACE: &str = "/tmp/prowess-earlier";
/// Where everything of prowess is kept, below that.
const STATE: &str = "home/.local/state/prowess";

/// The workspaces of a version, beside its files.
const WORKSPACES: &str = "workspaces.tar.gz";

/// Loading a skill is asked about.
const SKILLS_ASKED: &str = "[permission]\nskill = \"ask\"\n";
/// Calling `ls` is asked about.
const LS_ASKED: &str = "[permission.tool]\n\"*\" = \"allow\"\nls = \"ask\"\n";

/// A server with one tool, in the words of its protocol. Its file lies beside the home.
const SERVER: &str = r#"while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"pier","version":"1"}}' ;;
    *'"tools/list"'*) answer='"result":{"tools":[{"name":"depth","description":"Says how deep the water is.","inputSchema":{"type":"object","properties":{"place":{"type":"string"}}}}]}' ;;
    *'"tools/call"'*) echo called >> called.txt; answer='"result":{"content":[{"type":"text","text":"four fathoms"}]}' ;;
    *) answer='"error":{"code":-32601,"message":"not known here"}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

/// The configuration that has this server.
fn with_server() -> String {
    format!("[mcp.pier]\ncommand = [\"sh\", \"{PLACE}/pier.sh\"]\n")
}

/// A world at the place of the fixtures. No other test has one meanwhile, whatever process it is in.
struct Earlier {
    world: World,
    _alone: File,
}

impl Earlier {
    /// An empty home and an empty project.
    fn empty() -> Self {
        // A lock of the directory above leaves nothing behind.
        let alone = File::open(Path::new(PLACE).parent().unwrap()).unwrap();
        alone.lock().unwrap();
        clear();
        let made = std::fs::create_dir(PLACE);
        made.unwrap_or_else(|error| panic!("{PLACE} cannot be made; remove what is there: {error}"));
        open_to_commands(Path::new(PLACE));
        Self { world: World::at(Path::new(PLACE)), _alone: alone }
    }

    /// What version 0.1 left, before one core had the skills, the questions and their answers.
    fn of_0_1() -> Self {
        let earlier = Self::empty();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1");
        copy(&fixtures, Path::new(PLACE));
        let mut unpack = Command::new("tar");
        unpack.args(["-xpzf", WORKSPACES, "--no-same-owner", "-C", STATE]).current_dir(PLACE);
        assert!(unpack.status().unwrap().success());
        let workspaces = earlier.path(&format!("{STATE}/workspaces"));
        open_to_commands(&workspaces);
        if own_id() == 0 {
            // What commands of root write is nobody's.
            let written = "chown -R 65534:65534 */ws/out */ws/work */ws/runs";
            let given = Command::new("sh").args(["-c", written]).current_dir(workspaces).status();
            assert!(given.unwrap().success());
        }
        earlier
    }

    /// A model that gives these answers, and the configuration that names it.
    fn model(&self, answers: Vec<Answer>, more: &str) -> FakeModel {
        let model = FakeModel::start(answers);
        let url = model.url();
        let text = format!(
            "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n{more}"
        );
        self.world.file("home/.config/prowess/prowess.toml", &text);
        model
    }

    /// All threads of people, as a list shows them.
    fn threads(&self) -> Vec<Value> {
        self.world.json(&["threads", "list", "--json"]).as_array().unwrap().clone()
    }

    /// The name of the thread that has this title.
    fn thread(&self, title: &str) -> String {
        let threads = self.threads();
        let found = threads.iter().find(|thread| thread["title"] == title);
        found.unwrap_or_else(|| panic!("no `{title}` in {threads:#?}"))["id"].as_str().unwrap().to_owned()
    }

    /// What a thread waits for.
    fn questions(&self, id: &str) -> Vec<Value> {
        let threads = self.threads();
        let found = threads.iter().find(|thread| thread["id"] == id).unwrap();
        found["questions"].as_array().unwrap().clone()
    }

    /// All that was said in the thread that has this title.
    fn said(&self, title: &str) -> String {
        self.world.stdout(&["threads", "show", &self.thread(title), "--json"])
    }
}

impl Deref for Earlier {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Drop for Earlier {
    fn drop(&mut self) {
        clear();
    }
}

/// Removes what is at the place of the fixtures, if it is ours.
fn clear() {
    let Ok(found) = std::fs::symlink_metadata(PLACE) else { return };
    if found.is_dir() && found.uid() == own_id() {
        // Skills in workspaces are read-only.
        let _ = Command::new("chmod").args(["-R", "u+rwx", PLACE]).status();
        let _ = std::fs::remove_dir_all(PLACE);
    }
}

/// Who runs this test.
fn own_id() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// Commands of root run as somebody else, who has to pass the directory.
fn open_to_commands(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o711)).unwrap();
}

/// Copies a tree. Nobody else may write what is copied, whatever a checkout made of it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            open_to_commands(&target);
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
            let is_program = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let mode = if is_program { 0o700 } else { 0o600 };
            std::fs::set_permissions(&target, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}
