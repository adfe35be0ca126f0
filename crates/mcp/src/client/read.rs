//! Retrieves a file of a server's skill, and verifies it.

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
    /// Retrieves a file that the entry lists, from the address in the entry. Its size and digest must match the entry, and
    /// the frontmatter of SKILL.md as well.
    ///
    /// The caller holds the entry. If the skill has changed, look it up again ([`Server::skill`]) and ask for permission
    /// again.
    ///
    /// # Errors
    ///
    /// [`ServerError::Unverified`] if the entry does not list the file, or the file does not match the entry. Other errors if
    /// the server does not answer.
    pub async fn read(&self, held: &HeldEntry, path: &str) -> Result<Vec<u8>, ServerError> {
        let published = held.published();
        let fails = |mismatch| self.unverified(published, mismatch);
        let file = verify::listed(held, path).map_err(fails)?;
        if published.server != self.label().as_str() {
            // The caller confused two servers. Do not tell this one about addresses of the other.
            let why = format!("it belongs to server `{}`", published.server);
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
        let (server, uri) = (self.label().clone(), super::short_line::short_line(&published.uri));
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
            (uri, STANDARD.decode(blob).map_err(|_| odd("it is not Base64"))?)
        }
        _ => return Err(odd("it is neither text nor Base64")),
    };
    if uri == file.uri { Ok(bytes) } else { Err(odd("it has another address")) }
}
