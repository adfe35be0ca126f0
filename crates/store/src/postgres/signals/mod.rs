//! Signals through PostgreSQL's `NOTIFY`.

mod listener;
mod sender;

pub(crate) use self::listener::Listener;
pub(crate) use self::sender::Sender;
use super::PostgresStore;
use crate::error::DatabaseError;
use crate::rows::Statement;
use crate::signals::Audience;

/// The name of the channel of an audience. Only processes that can read the table of the schema know it: whoever can connect to a
/// database can listen on every channel that they can name.
fn channel_of(channel: &str, audience: Audience) -> String {
    let audience = match audience {
        Audience::Workers => "workers",
        Audience::Watchers => "watchers",
    };
    format!("prowess_{audience}_{channel}")
}

impl PostgresStore {
    /// The secret part of the names of channels.
    pub(crate) async fn channel(&self) -> Result<String, DatabaseError> {
        let rows = self.query(Statement::new(crate::sql::CHANNEL, [])).await?;
        let row = rows.first().ok_or_else(|| DatabaseError::damaged(&self.0.place, "it has no version"))?;
        let channel = row.text(0)?;
        // It becomes part of a statement.
        let is_name =
            !channel.is_empty() && channel.len() <= 40 && channel.bytes().all(|c| c.is_ascii_alphanumeric());
        if is_name { Ok(channel) } else { Err(row.damaged("the name of its channel is wrong")) }
    }
}
