//! Tells a person which server is slow.

use std::time::Duration;

use super::label::ServerLabel;

/// Calls a function for each server that takes longer than a given time. The client keeps waiting for the server.
///
/// ```
/// use std::time::Duration;
/// use prowess_mcp::client::{Patience, ServerLabel, Servers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tell = |server: &ServerLabel| eprintln!("waiting for {server}");
/// let patience = Patience::new(Duration::from_secs(2), &tell);
/// let (servers, _) = Servers::connect_with([], None, patience).await;
/// # assert_eq!(servers.all().count(), 0);
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Patience<'a>(Option<(Duration, &'a Tell<'a>)>);

/// Is called with the label of a slow server.
type Tell<'a> = dyn Fn(&ServerLabel) + Sync + 'a;

impl<'a> Patience<'a> {
    /// Calls `tell` for a server that takes longer than `after`.
    pub fn new(after: Duration, tell: &'a (dyn Fn(&ServerLabel) + Sync)) -> Self {
        Self(Some((after, tell)))
    }

    /// Waits in silence.
    pub fn endless() -> Self {
        Self(None)
    }

    /// Waits for the work of a server.
    pub(crate) async fn during<T>(self, server: &ServerLabel, doing: impl Future<Output = T>) -> T {
        let Some((after, tell)) = self.0 else { return doing.await };
        let mut doing = std::pin::pin!(doing);
        match tokio::time::timeout(after, &mut doing).await {
            Ok(done) => done,
            Err(_) => {
                tell(server);
                doing.await
            }
        }
    }
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Patience").field(&self.0.map(|(after, _)| after)).finish()
    }
}
