//! Files of a server's skills, retrieved when they are needed and checked before they are used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ClientRequest, ReadResourceRequest, ReadResourceRequestParams, ResourceContents, ServerResult,
};

use super::error::{Mismatch, ServerError, Unverified};
use super::held_entry::HeldEntry;
use super::server::Server;
use super::verify;
use prowess_catalog::published::{Published, PublishedFile};

const METHOD: &str = "resources/read";

impl Server {
    /// Retrieves a file of a skill: one that its entry lists, at the address that it says there, checked against the
    /// size and the digest there; SKILL.md also against the frontmatter.
    ///
    /// The entry is the one that the caller holds. Whoever finds that the skill is another one now asks for it anew
    /// ([`Server::skill`]), and for leave to use it.
    ///
    /// # Errors
    ///
    /// [`ServerError::Unverified`] when the entry does not list the file, or the file is not what the entry says; and
    /// whatever keeps the server from answering.
    pub async fn read(&self, held: &HeldEntry, path: &str) -> Result<Vec<u8>, ServerError> {
        let published = held.published();
        let fails = |mismatch| self.unverified(published, mismatch);
        let file = verify::listed(held, path).map_err(fails)?;
        if published.server != self.label().as_str() {
            // Who asks mixed up servers: this one is not told of the other's addresses.
            let why = format!("it is of server `{}`", published.server);
            return Err(fails(Mismatch::Contents { path: file.path.clone(), why }));
        }
        let params = ReadResourceRequestParams::new(file.uri.clone());
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        let ServerResult::ReadResourceResult(result) =
            self.request(METHOD, request, self.limits().answer).await?
        else {
            return Err(self.odd(METHOD, "it has no contents"));
        };
        let bytes = only_contents(file, result.contents).map_err(fails)?;
        verify::check(held, file, &bytes).map_err(fails)?;
        Ok(bytes)
    }

    pub(crate) fn unverified(&self, published: &Published, mismatch: Mismatch) -> ServerError {
        let (server, uri) = (self.label().clone(), super::printable::printable(&published.uri));
        Unverified { server, uri, mismatch }.into()
    }
}

fn only_contents(file: &PublishedFile, contents: Vec<ResourceContents>) -> Result<Vec<u8>, Mismatch> {
    let odd = |why: &str| Mismatch::Contents { path: file.path.clone(), why: why.to_owned() };
    let [contents] = <[_; 1]>::try_from(contents)
        .map_err(|contents| odd(&format!("it has {} contents", contents.len())))?;
    let (uri, bytes) = match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => (uri, text.into_bytes()),
        ResourceContents::BlobResourceContents { uri, blob, .. } => {
            (uri, STANDARD.decode(blob).map_err(|_| odd("it is no Base64"))?)
        }
        _ => return Err(odd("it is neither text nor Base64")),
    };
    if uri == file.uri { Ok(bytes) } else { Err(odd("it has another address")) }
}
