//! Whether a client can still receive the answer to its call.
//!
//! A client whose connection breaks may reconnect and resume its stream. If it does not come back in time, it is gone, and
//! the server drops a question that waits for its person.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How long a client may take to reconnect, by default.
pub(super) const DEFAULT_RECONNECT_TIME: Duration = Duration::from_secs(10);

/// The calls of one MCP session whose streams are open, or were open a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct OpenCalls {
    calls: Arc<Mutex<HashMap<u64, OpenCall>>>,
    /// How long a client may take to reconnect.
    reconnect_time: Duration,
}

#[derive(Debug)]
struct OpenCall {
    gone: CancellationToken,
    /// How many of its streams are open.
    open: usize,
    /// How many streams it had so far.
    begun: u64,
}

impl OpenCalls {
    pub(crate) fn new(reconnect_time: Duration) -> Self {
        Self { calls: Arc::default(), reconnect_time }
    }

    /// Notes that a new call has an open stream. Cancels `gone` when no stream is left and the client does not reconnect.
    pub(crate) fn begins(&self, call: Option<u64>, gone: CancellationToken) -> CallStream {
        if let Some(call) = call {
            self.lock().insert(call, OpenCall { gone, open: 0, begun: 0 });
        }
        self.resumes(call)
    }

    /// Notes that another stream of a call is open. Does nothing for a stream that belongs to no call.
    pub(crate) fn resumes(&self, call: Option<u64>) -> CallStream {
        let call = call.filter(|call| {
            let mut calls = self.lock();
            let known = calls.get_mut(call);
            known.map(|known| (known.open, known.begun) = (known.open + 1, known.begun + 1)).is_some()
        });
        CallStream(call.map(|call| (self.clone(), call)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, OpenCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a stream closed before its end, and waits for the client to reconnect.
    async fn left(self, call: u64) {
        let begun = {
            let mut calls = self.lock();
            let Some(known) = calls.get_mut(&call) else { return };
            known.open -= 1;
            known.begun
        };
        tokio::time::sleep(self.reconnect_time).await;
        let mut calls = self.lock();
        if calls.get(&call).is_some_and(|known| known.open == 0 && known.begun == begun)
            && let Some(known) = calls.remove(&call)
        {
            known.gone.cancel();
        }
    }
}

/// An open stream of a call. Dropping it closes the stream.
pub(crate) struct CallStream(Option<(OpenCalls, u64)>);

impl CallStream {
    /// Notes that the client received everything.
    pub(crate) fn finish(&mut self) {
        if let Some((open_calls, call)) = self.0.take() {
            open_calls.lock().remove(&call);
        }
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        let Some((open_calls, call)) = self.0.take() else { return };
        // Without a runtime no calls are left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(open_calls.left(call));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_does_not_come_back_is_gone() {
        let open_calls = OpenCalls::new(Duration::ZERO);
        let gone = CancellationToken::new();
        let stream = open_calls.begins(Some(1), gone.clone());
        let again = open_calls.resumes(Some(1));
        drop(stream);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!gone.is_cancelled(), "another stream is open");
        drop(again);
        gone.cancelled().await;
        assert!(open_calls.lock().is_empty());
    }

    #[tokio::test]
    async fn who_comes_back_in_time_or_heard_all_is_not_gone() {
        let open_calls = OpenCalls::new(Duration::from_secs(3600));
        let gone = CancellationToken::new();
        drop(open_calls.begins(Some(1), gone.clone()));
        tokio::task::yield_now().await;
        let mut again = open_calls.resumes(Some(1));
        assert_eq!(open_calls.lock()[&1].open, 1);
        again.finish();
        drop(again);
        assert!(open_calls.lock().is_empty());
        // Neither of these is a call's.
        drop(open_calls.resumes(Some(1)));
        drop(open_calls.begins(None, gone.clone()));
        assert!(open_calls.lock().is_empty() && !gone.is_cancelled());
    }
}
