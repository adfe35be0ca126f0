//! How a process takes part in a server.

use prowess_store::signals::{Audience, Signals};

/// What a process of a server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    #[default]
    All,
    /// It takes requests and streams events.
    Web,
    /// It runs turns. It answers only requests about itself: `/healthz`, `/readyz` and `/metrics`.
    Worker,
}

impl Role {
    /// Whether it takes requests of clients.
    pub fn is_web(self) -> bool {
        self != Self::Worker
    }

    /// Whether it runs turns.
    pub fn is_worker(self) -> bool {
        self != Self::Web
    }

    /// Whose signals it wants to hear.
    ///
    /// ```
    /// use prowess_serve::Role;
    /// use prowess_store::signals::Audience;
    ///
    /// assert_eq!(Role::Web.audiences(), [Audience::Watchers]);
    /// ```
    pub fn audiences(self) -> &'static [Audience] {
        match self {
            Self::All => &[Audience::Workers, Audience::Watchers],
            Self::Web => &[Audience::Watchers],
            Self::Worker => &[Audience::Workers],
        }
    }
}

/// A process among those of a server.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it does.
    pub role: Role,
    /// The name of its host.
    pub host: String,
    /// The signals of the other processes.
    pub signals: Signals,
}

impl Process {
    /// The only process of a server.
    pub fn alone() -> Self {
        Self { role: Role::All, host: String::new(), signals: Signals::none() }
    }
}
