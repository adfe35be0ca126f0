//! Carries bytes in both directions, until one side ends or both are idle for too long.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

/// How many bytes are read at once.
const PIECE: usize = 16 * 1024;

/// How much goes from the client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upward {
    /// Everything.
    All,
    /// This many bytes, and nothing after them.
    Exactly(u64),
}

/// Carries bytes between a client and a server. `first` goes to the server before anything else.
pub(super) async fn relay(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    first: &[u8],
    upward: Upward,
    idle: Duration,
) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let activity = Activity::new(idle);
    let up = async {
        to_server.write_all(first).await?;
        match upward {
            Upward::All => {
                carry(&mut from_client, &mut to_server, &activity).await?;
                to_server.shutdown().await
            }
            // The server's response ends the connection. Later bytes of the client are not read.
            Upward::Exactly(bytes) => {
                let carried = carry(&mut (&mut from_client).take(bytes), &mut to_server, &activity).await?;
                if carried < bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                std::future::pending().await
            }
        }
    };
    let down = async {
        carry(&mut from_server, &mut to_client, &activity).await?;
        to_client.shutdown().await?;
        match upward {
            Upward::All => Ok(()),
            Upward::Exactly(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    };
    let both = async {
        // An error on one side ends both, and so does the end of a single response.
        let _: io::Result<_> = tokio::try_join!(up, down);
    };
    tokio::select! {
        () = both => {}
        () = activity.ceased() => {}
    }
}

async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut carried = 0;
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(carried);
        }
        to.write_all(&buffer[..length]).await?;
        carried += length as u64;
        activity.seen();
    }
}

/// When the last bytes were carried.
struct Activity {
    last: Mutex<Instant>,
    idle: Duration,
}

impl Activity {
    fn new(idle: Duration) -> Self {
        Self { last: Mutex::new(Instant::now()), idle }
    }

    fn seen(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until nothing was carried for too long.
    async fn ceased(&self) {
        loop {
            let until = *self.last.lock().unwrap_or_else(PoisonError::into_inner) + self.idle;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
