//! Standard input that comes while the command runs.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::watch;

/// How many bytes are forwarded at once.
const PIECE: usize = 16 * 1024;

/// Forwards bytes until there are no more. The other end is closed only after the command has opened it: otherwise the
/// command would wait forever.
pub(super) async fn forward(from: OwnedFd, to: OwnedFd, mut began: watch::Receiver<bool>) -> io::Result<()> {
    let to = Sender::from_owned_fd(to)?;
    let _ = forward_all(&Receiver::from_owned_fd(from)?, &to).await;
    let _ = began.wait_for(|began| *began).await;
    Ok(())
}

async fn forward_all(from: &Receiver, to: &Sender) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        from.readable().await?;
        let mut rest = match from.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        while !rest.is_empty() {
            to.writable().await?;
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
