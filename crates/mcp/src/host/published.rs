//! Stand-in.
use prowess_catalog::Digest;

/// A skill as a server publishes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Our label for the server.
    pub server: String,
    /// The address of its SKILL.md there.
    pub uri: String,
    /// Its files.
    pub files: Vec<PublishedFile>,
}

/// One of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// In the skill.
    pub path: String,
    /// At the server.
    pub uri: String,
    /// What it should be.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

impl Published {
    /// One.
    pub fn file(&self, path: &str) -> Option<&PublishedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All.
    pub fn digest(&self) -> Digest {
        let mut text = format!("{}\n", self.uri);
        for file in &self.files {
            text.push_str(&format!("{} {} {}\n", file.uri, file.digest, file.size));
        }
        Digest::of(text.as_bytes())
    }
}

/// A skill that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// JSON.
    pub frontmatter: String,
    /// What.
    pub published: Published,
    /// Whether.
    pub is_granted: bool,
}
