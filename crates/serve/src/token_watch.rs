//! Ends the streams of tokens that are no longer valid. One task checks each token, however many streams it has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use prowess_store::serve::Accounts;
use tokio::sync::watch;

use crate::app::lock;

/// How often tokens with open streams are checked. A token that was revoked stops within a second.
const CHECK: Duration = Duration::from_millis(500);

/// How many tokens are checked at once.
const AT_ONCE: usize = 16;

type Digest = [u8; 32];

/// The tokens with open streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenWatch(Arc<Mutex<Tokens>>);

/// The number of a token's streams, and whether it was revoked.
type Tokens = HashMap<Digest, (usize, watch::Sender<bool>)>;

/// A token with an open stream.
#[derive(Debug)]
pub(crate) struct WatchedToken {
    watch: TokenWatch,
    digest: Digest,
    is_revoked: watch::Receiver<bool>,
}

impl TokenWatch {
    pub(crate) fn watch(&self, digest: Digest) -> WatchedToken {
        let mut tokens = lock(&self.0);
        let (streams, sender) = tokens.entry(digest).or_insert_with(|| (0, watch::Sender::new(false)));
        *streams += 1;
        WatchedToken { watch: self.clone(), digest, is_revoked: sender.subscribe() }
    }

    /// Checks the tokens until the server stops.
    pub(crate) async fn check(self, accounts: Accounts, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let digests: Vec<Digest> = lock(&self.0).keys().copied().collect();
            let check = async |digest: Digest| {
                // A database that fails says nothing about a token.
                if let Ok(None) = accounts.who(&digest).await
                    && let Some((_, sender)) = lock(&self.0).get(&digest)
                {
                    sender.send_replace(true);
                }
            };
            stream::iter(digests).for_each_concurrent(AT_ONCE, check).await;
            tokio::select! {
                () = tokio::time::sleep(CHECK) => {}
                _ = stop.changed() => {}
            }
        }
    }
}

impl WatchedToken {
    /// Waits until the token is not valid any more.
    pub(crate) async fn revoked(&mut self) {
        if self.is_revoked.wait_for(|is_revoked| *is_revoked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for WatchedToken {
    fn drop(&mut self) {
        let mut tokens = lock(&self.watch.0);
        if let Some((streams, _)) = tokens.get_mut(&self.digest) {
            *streams -= 1;
            if *streams == 0 {
                tokens.remove(&self.digest);
            }
        }
    }
}
