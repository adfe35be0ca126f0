//! `[sandbox]`

use prowess_workspace::{ContainerOptions, HostRule, Level};

use super::read::section;
use super::setting::{EMPTY, FullPath, Parsed, Variable, words};

section! {
    /// What isolates the commands of skills.
    pub(crate) struct SandboxSettings {
        /// Where commands run: in a sandbox of this machine, or in a container of Docker or Podman.
        User executor: ExecutorWord = "local",
        /// The weakest isolation that you accept for the local executor. prowess uses the strongest that works.
        User level: Level = "bwrap",
        /// The image for containers. The container engine must have it.
        User image: String = ContainerOptions::default().image,
        /// The Unix socket of the container engine, as an absolute path or with a leading `~/`. Without it, prowess
        /// uses `DOCKER_HOST`, then the usual sockets of Docker and Podman.
        User engine_socket: Option<Parsed<FullPath>>,
        /// Hosts that a model may request for its commands. prowess asks you each time, unless a rule allows it.
        /// `prowess run` has `--allow-host`.
        User hosts: Vec<Parsed<HostRule>> = EMPTY,
        /// Variables that commands may get although they make programs load code, such as `NODE_OPTIONS` or
        /// `LD_LIBRARY_PATH`. They work only inside the sandbox, and never at the level `none`.
        User allow_loaders: Vec<Parsed<Variable>> = EMPTY,
    }
}

impl SandboxSettings {
    /// The hosts that a model may request.
    pub(crate) fn host_rules(&self) -> impl Iterator<Item = HostRule> {
        self.hosts.iter().map(|host| host.value.clone())
    }
}

words! {
    /// Where commands run.
    enum ExecutorWord { "local" = Local, "container" = Container }
}
words!(Level { "bwrap" = Bwrap, "bwrap-noproc" = BwrapNoproc, "landlock" = Landlock, "none" = None });
