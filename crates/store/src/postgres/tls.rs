//! TLS for PostgreSQL connections.

use std::future::poll_fn;

use deadpool_postgres::{Manager, ManagerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};

use super::error::database_error;
use crate::error::DatabaseError;

/// The messages of a connection that are no answers. They end with the connection.
type Messages = mpsc::UnboundedReceiver<Result<AsyncMessage, Error>>;

/// Makes connections. A local socket needs no TLS.
pub(super) fn manager(config: Config, managed: ManagerConfig, place: &str) -> Result<Manager, DatabaseError> {
    if wants_tls(&config) {
        encrypted(config, managed, place)
    } else {
        Ok(Manager::from_config(config, NoTls, managed))
    }
}

fn wants_tls(config: &Config) -> bool {
    let is_remote = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    is_remote && config.get_ssl_mode() != SslMode::Disable
}

/// Makes one connection, for whoever needs its messages.
pub(super) async fn connect(config: &Config, place: &str) -> Result<(Client, Messages), DatabaseError> {
    let failed = |error| database_error(place, error);
    #[cfg(feature = "postgres-tls")]
    if wants_tls(config) {
        let (client, connection) = config.connect(encryption(place)?).await.map_err(failed)?;
        return Ok((client, messages(connection)));
    }
    let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
    Ok((client, messages(connection)))
}

/// Drives a connection until nobody wants its messages.
fn messages<S, T>(mut connection: Connection<S, T>) -> Messages
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (told, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            let is_over = message.is_err();
            if told.send(message).is_err() || is_over {
                break;
            }
        }
    });
    messages
}

#[cfg(feature = "postgres-tls")]
fn encrypted(config: Config, managed: ManagerConfig, place: &str) -> Result<Manager, DatabaseError> {
    Ok(Manager::from_config(config, encryption(place)?, managed))
}

#[cfg(feature = "postgres-tls")]
fn encryption(place: &str) -> Result<tokio_postgres_rustls::MakeRustlsConnect, DatabaseError> {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_postgres_rustls::MakeRustlsConnect;

    let mut roots = RootCertStore::empty();
    // Certificates that cannot be parsed are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| DatabaseError::failed(place, "be connected to", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(tls))
}

#[cfg(not(feature = "postgres-tls"))]
fn encrypted(config: Config, managed: ManagerConfig, place: &str) -> Result<Manager, DatabaseError> {
    if config.get_ssl_mode() == SslMode::Require {
        return Err(DatabaseError::Unsupported {
            place: place.to_owned(),
            needs: "the feature `postgres-tls` for `sslmode=require`",
        });
    }
    Ok(Manager::from_config(config, NoTls, managed))
}
