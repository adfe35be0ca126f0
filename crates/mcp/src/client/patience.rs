//! Who waits for a server, and for how long without a word.

use std::time::Duration;

use super::label::ServerLabel;

/// Tells somebody of each server that takes longer than they would wait without a word. The server is waited for all
/// the same.
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

/// Tells somebody of a server.
type Tell<'a> = dyn Fn(&ServerLabel) + Sync + 'a;

impl<'a> Patience<'a> {
    /// Tells of a server after this time.
    pub fn new(after: Duration, tell: &'a (dyn Fn(&ServerLabel) + Sync)) -> Self {
        Self(Some((after, tell)))
    }

    /// Tells nobody.
    pub fn endless() -> Self {
        Self(None)
    }

    /// Waits for a server.
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
