//! Capabilities: what a model can do with skills besides loading them.

/// What a model can do with skills besides loading them. Each capability is independent, and every dialect has tools for
/// all of them.
///
/// ```
/// use prowess_skills::{Capabilities, Dialect, SessionOptions};
///
/// let mut options = SessionOptions::new(Dialect::OpenCode);
/// assert_eq!(options.capabilities, Capabilities::of(Dialect::OpenCode));
/// assert!(!options.capabilities.documents, "opencode has no tools for documents");
/// options.capabilities.documents = true;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each one is independent of the others")]
pub struct Capabilities {
    /// Load a skill with arguments.
    pub arguments: bool,
    /// Unload a skill.
    pub unload: bool,
    /// Search all skills.
    pub search: bool,
    /// List a skill's documents, and select which are in context.
    pub documents: bool,
    /// Run a command of a skill, if the session has a `RunSetup`.
    pub run: bool,
    /// Start a command of a skill and type into it, if the session has a `RunSetup`.
    pub interactive: bool,
}

impl Capabilities {
    /// All of them.
    ///
    /// ```
    /// assert!(prowess_skills::Capabilities::all().interactive);
    /// ```
    pub const fn all() -> Self {
        Self { arguments: true, unload: true, search: true, documents: true, run: true, interactive: true }
    }

    /// None of them: skills can only be loaded.
    ///
    /// ```
    /// assert!(!prowess_skills::Capabilities::none().unload);
    /// ```
    pub const fn none() -> Self {
        Self {
            arguments: false,
            unload: false,
            search: false,
            documents: false,
            run: false,
            interactive: false,
        }
    }

    /// The default capabilities of a dialect: those of the original agent, and unloading.
    ///
    /// ```
    /// use prowess_skills::{Capabilities, Dialect};
    ///
    /// assert!(Capabilities::of(Dialect::Trpc).run);
    /// ```
    pub fn of(dialect: super::Dialect) -> Self {
        dialect.table().capabilities
    }
}
