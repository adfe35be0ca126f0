//! TLS for PostgreSQL connections.

use deadpool_postgres::{Manager, ManagerConfig};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};

use crate::error::DatabaseError;

/// Makes connections. A local socket needs no TLS.
pub(super) fn manager(config: Config, managed: ManagerConfig, place: &str) -> Result<Manager, DatabaseError> {
    let is_remote = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    if is_remote && config.get_ssl_mode() != SslMode::Disable {
        encrypted(config, managed, place)
    } else {
        Ok(Manager::from_config(config, NoTls, managed))
    }
}

#[cfg(feature = "postgres-tls")]
fn encrypted(config: Config, managed: ManagerConfig, place: &str) -> Result<Manager, DatabaseError> {
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
    Ok(Manager::from_config(config, MakeRustlsConnect::new(tls), managed))
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
