//! `prowess serve`, as clients and browsers meet it: the program, over the wire.

mod agui;
mod approving;
mod artifacts;
mod bucket;
mod client;
mod confining;
mod conversing;
mod dead_letters;
mod documented;
mod following;
#[cfg(feature = "oidc")]
mod issuer;
mod keeping_apart;
mod limiting;
#[cfg(feature = "oidc")]
mod oidc;
mod openai;
mod own_skills;
mod postgres;
mod processes;
mod refusing;
mod setting_up;
mod spending;
mod stalling;
mod surviving;
mod watching;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use self::client::Client;
use crate::world::World;

/// No line of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a port of its own.
pub(super) struct Server<'a> {
    world: &'a World,
    child: Child,
    lines: Receiver<String>,
    address: String,
    /// The path of the link by which the first user signs in.
    login: String,
    /// The lines before that.
    said: Vec<String>,
}

impl<'a> Server<'a> {
    fn start(world: &'a World) -> Self {
        Self::start_with(world, &[])
    }

    fn start_with(world: &'a World, args: &[&str]) -> Self {
        let mut server = Self::begin(world, args);
        let link = server.line("sign in as `admin`, once, within 15 minutes: http://");
        let (address, path) = link.split_once('/').unwrap();
        (server.address, server.login) = (address.to_owned(), format!("/{path}"));
        server
    }

    /// A server that may print no link.
    fn begin(world: &'a World, args: &[&str]) -> Self {
        let lease: &[&str] = if args.contains(&"--lease") { &[] } else { &["--lease", "2"] };
        let mut command = world.command(&[&["serve", "--listen", ":0"], lease, args].concat());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                if send.send(line.clone()).is_err() {
                    return;
                }
            }
        });
        Self { world, child, lines, address: String::new(), login: String::new(), said: Vec::new() }
    }

    /// What follows these words in the line that begins with them.
    fn line(&mut self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.strip_prefix(words) {
                    Some(rest) => return rest.to_owned(),
                    None => {
                        self.said.push(line.clone());
                        before.push(line);
                    }
                },
                Err(_) => panic!("the server never said {words:?}: {before:#?}"),
            }
        }
    }

    /// A client with a new token of a user.
    fn client(&self, user: &str) -> Client {
        self.client_with(user, &[])
    }

    fn client_with(&self, user: &str, args: &[&str]) -> Client {
        let args = [&["serve", "token", "add", user], args].concat();
        let token = self.world.stdout(&args);
        Client::with_token(&self.address, token.trim())
    }

    /// A client of a new user.
    fn new_user(&self, name: &str) -> Client {
        self.world.stdout(&["serve", "user", "add", name]);
        self.client(name)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks systemd whether it accepts a unit.
fn verify_unit(world: &World, unit: &str) {
    world.file("prowess.service", unit);
    let mut verify = std::process::Command::new("systemd-analyze");
    verify.arg("verify").arg(world.path("prowess.service"));
    let verified = verify.output().expect("systemd-analyze is missing: run `make components`");
    let told = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !told.contains("ignoring"), "{told}");
}

#[test]
fn the_unit_is_one_that_systemd_accepts() {
    let world = World::new();
    let root = world.path("my skills");
    std::fs::create_dir(&root).unwrap();
    let root = root.to_str().unwrap();
    let unit = world.stdout(&["serve", "--print-unit", "--model", "offline", "--root", root, "--turns", "4"]);
    let program = env!("CARGO_BIN_EXE_prowess");
    let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    let given = format!("serve --model offline --root \"{root}\" --turns 4 --data /var/lib/prowess");
    assert_eq!(start, format!("ExecStart={program} {given}"));
    verify_unit(&world, &unit);
    // A unit is readable by everybody.
    let told = world.run(&["serve", "--print-unit", "--database", "postgres://me:secret@db/prowess"]);
    assert!(told.contains("/etc/prowess/serve.env") && !told.contains("secret@"), "{told}");
}
