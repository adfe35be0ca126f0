//! Tells clients when the lists of tools, prompts and resources have changed.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::watch;

use crate::live::Version;

/// How often the server checks whether a client that waits for changes is still connected.
const CHECK_CLIENT: Duration = Duration::from_secs(5);

/// The changes that one client has not been told about yet.
pub(crate) struct Changes {
    pub(crate) versions: watch::Receiver<Version>,
    pub(crate) new_outputs: watch::Receiver<u64>,
    pub(crate) ended: watch::Receiver<bool>,
    /// The version that the client knows.
    pub(crate) told: Version,
}

impl Changes {
    /// Waits for the next change, and says whether the skills changed. `None` if no more changes can come.
    async fn next(&mut self) -> Option<bool> {
        tokio::select! {
            biased;
            _ = self.ended.wait_for(|ended| *ended) => None,
            changed = self.versions.changed() => {
                changed.ok()?;
                let version = *self.versions.borrow_and_update();
                let before = std::mem::replace(&mut self.told, version);
                Some(version.skills != before.skills)
            }
            changed = self.new_outputs.changed() => {
                changed.ok()?;
                Some(false)
            }
        }
    }

    /// Notifies a client of an older revision about every change, until it goes away. Such clients need not subscribe.
    pub(crate) async fn notify(mut self, peer: &Peer<RoleServer>) {
        loop {
            let next = tokio::time::timeout(CHECK_CLIENT, self.next()).await;
            let has_other_skills = match next {
                Ok(Some(has_other_skills)) => has_other_skills,
                Err(_) if !peer.is_transport_closed() => continue,
                Ok(None) | Err(_) => return,
            };
            let mut sent = peer.notify_resource_list_changed().await;
            if has_other_skills && sent.is_ok() {
                sent = peer.notify_tool_list_changed().await.and(peer.notify_prompt_list_changed().await);
            }
            if sent.is_err() {
                return;
            }
        }
    }

    /// Notifies a client of the newest revision about the changes that it subscribed to.
    pub(crate) async fn notify_subscriber(mut self, context: &SubscriptionContext) {
        loop {
            let has_other_skills = tokio::select! {
                () = context.cancelled() => return,
                next = self.next() => match next {
                    Some(has_other_skills) => has_other_skills,
                    None => return,
                },
            };
            let (sink, accepted) = (context.sink(), context.accepted());
            // If the client is gone, the next round ends.
            if accepted.resources_list_changed == Some(true) {
                let _ = sink.notify_resource_list_changed().await;
            }
            if has_other_skills && accepted.tools_list_changed == Some(true) {
                let _ = sink.notify_tool_list_changed().await;
            }
            if has_other_skills && accepted.prompts_list_changed == Some(true) {
                let _ = sink.notify_prompt_list_changed().await;
            }
        }
    }
}
