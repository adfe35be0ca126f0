//! Why a download failed.

use std::net::IpAddr;

use thiserror::Error;

use super::{DOWNLOAD_TIMEOUT, MAX_REDIRECTS};

/// Why a download failed. No message has a password, a token or a query.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is no http or https URL.
    #[error("{0:?} is not an http or https URL")]
    NotHttp(String),
    /// A redirect or an index leads from https to http.
    #[error("{from} leads from https to plain http ({to}); refused")]
    Downgrade {
        /// The URL before.
        from: String,
        /// The URL that it leads to.
        to: String,
    },
    /// A redirect or an index leads to a private address.
    #[error("{url} is at the private address {address}; type it yourself if you want it")]
    Private {
        /// The URL.
        url: String,
        /// Its address.
        address: IpAddr,
    },
    /// A stranger named a host without a domain, such as one of the SSH configuration.
    #[error("{0:?} is no public host name")]
    LocalName(String),
    /// A redirect leads to another host, which is not allowed here.
    #[error("{from} redirects to another host, {to}; add that source if you want it")]
    OtherHost {
        /// The typed host.
        from: String,
        /// The other host.
        to: String,
    },
    /// There are too many redirects.
    #[error("{0} redirects more than {MAX_REDIRECTS} times")]
    Redirects(String),
    /// A redirect has no usable URL.
    #[error("{0} redirects to something that is not a URL")]
    BadRedirect(String),
    /// The server answers with an error.
    #[error("{url}: the server answers {status}")]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The answer is too long.
    #[error("{url} has more than {most} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The most bytes.
        most: u64,
    },
    /// The host has no address.
    #[error("cannot find the address of {host}: {reason}")]
    Address {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The server cannot be reached, or the connection breaks.
    #[error("cannot get {url}: {reason}")]
    Failed {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The download takes too long.
    #[error("{0} takes longer than {limit} seconds", limit = DOWNLOAD_TIMEOUT.as_secs())]
    TimedOut(String),
    /// A token would be sent without encryption.
    #[error("refusing to send the token for {0} over plain http; type https://")]
    PlainToken(String),
    /// The token cannot be sent.
    #[error("the token for {0} has characters that a header cannot carry")]
    BadToken(String),
}

impl HttpError {
    /// Whether the server says that there is nothing at the URL.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Status { status: 404 | 410, .. })
    }
}
