//! The threads of sub-agents: how they are named and found.

use hmac_sha256::Hash;
use prowess_base::hex;

use super::{ThreadError, ThreadStore};
use crate::id::{MessageId, ThreadId};
use crate::thread_state::Event;

/// How many events one request to the store reads.
const PAGE: usize = 1000;

/// The thread of the sub-agent that works for a call. It is always the same for the same call.
pub(crate) fn sub_agent_thread(parent: &ThreadId, message: &MessageId) -> ThreadId {
    let digest = Hash::hash(format!("{parent}\0{}", message.as_str()).as_bytes());
    let name = format!("task-{}", hex::encode(&digest[..16]));
    name.parse().unwrap_or_else(|_| ThreadId::new())
}

/// The threads of a thread's sub-agents and of their sub-agents. Each comes after its parent.
///
/// ```
/// use prowess_agent::middleware::sub_agent_threads;
/// use prowess_agent::{MemoryThreads, ThreadId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::thread::ThreadError> {
/// let threads = sub_agent_threads(&MemoryThreads::default(), &ThreadId::new()).await?;
/// assert!(threads.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The store failed, or one of the threads cannot be read.
pub async fn sub_agent_threads(
    store: &dyn ThreadStore,
    thread: &ThreadId,
) -> Result<Vec<ThreadId>, ThreadError> {
    let mut threads = children(store, thread).await?;
    let mut known = 0;
    while let Some(id) = threads.get(known) {
        let children = children(store, id).await?;
        threads.extend(children);
        known += 1;
    }
    Ok(threads)
}

/// The threads of the sub-agents that work for the calls of a response, one for each call. Most calls have no sub-agent, so
/// most of these threads do not exist.
///
/// ```
/// use prowess_agent::middleware::possible_sub_agents;
/// use prowess_agent::thread_state::{Event, TurnOutcome};
/// use prowess_agent::ThreadId;
///
/// let ended = Event::TurnEnded { outcome: TurnOutcome::Cancelled };
/// assert!(possible_sub_agents(&ThreadId::new(), &ended).is_empty(), "it calls nothing");
/// ```
pub fn possible_sub_agents(parent: &ThreadId, event: &Event) -> Vec<ThreadId> {
    let Event::ModelResponded { message, .. } = event else { return Vec::new() };
    let calls = 0..message.tool_calls().count();
    calls.map(|number| sub_agent_thread(parent, &message.result_id(number))).collect()
}

/// The threads of a thread's own sub-agents.
async fn children(store: &dyn ThreadStore, parent: &ThreadId) -> Result<Vec<ThreadId>, ThreadError> {
    let mut children = Vec::new();
    let mut after = 0;
    loop {
        let page = match store.events(parent, after, PAGE).await {
            Ok(page) => page,
            Err(ThreadError::NotFound(_)) => return Ok(children),
            Err(error) => return Err(error),
        };
        after += page.len() as u64;
        for stored in &page {
            for id in possible_sub_agents(parent, &stored.event) {
                if has_events(store, &id).await? {
                    children.push(id);
                }
            }
        }
        if page.len() < PAGE {
            return Ok(children);
        }
    }
}

/// Whether a thread has events.
pub(crate) async fn has_events(store: &dyn ThreadStore, id: &ThreadId) -> Result<bool, ThreadError> {
    match store.events(id, 0, 1).await {
        Ok(events) => Ok(!events.is_empty()),
        Err(ThreadError::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
