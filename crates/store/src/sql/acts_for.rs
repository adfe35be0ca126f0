//! The statements that tell PostgreSQL for whom the rest of a transaction runs.

/// It runs for a user.
pub(crate) const USER: &str = "SELECT set_config('prowess.user', ?1, true)";

/// It runs for the owner of a thread.
pub(crate) const THREAD_OWNER: &str =
    "SELECT set_config('prowess.user', COALESCE(prowess_thread_owner(?1), ''), true)";

/// It runs for the owner of the token with a digest.
pub(crate) const TOKEN_OWNER: &str =
    "SELECT set_config('prowess.user', COALESCE(prowess_token_owner(?1), ''), true)";

/// It runs for the owner of the token with an id.
pub(crate) const TOKEN_ID_OWNER: &str =
    "SELECT set_config('prowess.user', COALESCE(prowess_token_id_owner(?1), ''), true)";

/// It runs for the user to whom a person of an issuer is linked.
pub(crate) const IDENTITY_OWNER: &str =
    "SELECT set_config('prowess.user', COALESCE(prowess_identity_owner(?1, ?2), ''), true)";

/// Whether row-level security binds this connection, and whether the server flushes before it responds.
pub(crate) const IS_WALLED: &str =
    "SELECT row_security_active('prowess_threads'), current_setting('synchronous_commit') <> 'off'";
