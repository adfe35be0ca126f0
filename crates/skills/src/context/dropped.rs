//! Skills and documents that cannot stay in context, and what the model reads about them.

use prowess_catalog::untrusted::code_text;

use crate::dialect::Dialect;
use crate::error::argument;

/// A document that cannot stay in context: its nonce in the state, and the reason.
pub(super) struct DroppedDocument {
    pub(super) nonce: String,
    pub(super) why: String,
}

/// Why a loaded skill cannot stay in context.
pub(super) enum DropReason {
    NoRoom {
        tokens: usize,
        budget: usize,
    },
    Changed,
    Gone,
    /// The text of a server's skill is never put back.
    Summarised,
    Unreadable(String),
}

impl DropReason {
    /// The line for the model.
    pub(super) fn notice(self, name: &str, dialect: Dialect) -> String {
        let load = dialect.load_tools().load;
        let again = format!("Use `{load}(\"{}\")` if you need it again.", argument(name));
        let name = code_text(name);
        match self {
            Self::NoRoom { tokens, budget } => format!(
                "Skill '{name}' was unloaded: its {tokens} tokens no longer fit. All loaded skills together may \
                 take {budget} tokens here. {again}"
            ),
            Self::Changed => format!(
                "Skill '{name}' was unloaded: it has changed, and the change has not been approved. {again}"
            ),
            Self::Summarised => format!(
                "Skill '{name}' was unloaded: it comes from an MCP server, and the messages with its text have been \
                 summarised. {again}"
            ),
            Self::Unreadable(error) => format!("Skill '{name}' was unloaded: {}", code_text(&error)),
            Self::Gone => format!("Skill '{name}' was unloaded: it is no longer available."),
        }
    }
}
