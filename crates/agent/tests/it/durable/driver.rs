//! Goes on with the run, in any process.

use std::time::Duration;

use prowess_agent::message::Content;
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{Agent, AgentError, NoWatcher, Thread, ThreadState, TurnStatus, Watcher};
use tokio::time::Instant;

use super::checks::is_scripted;
use super::process::LONG;
use super::script::{SAID, reply, thread};

/// How often it is looked whether a thread is free.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The thread, once nobody else has it.
pub(super) async fn opened(agent: &Agent) -> Thread {
    let until = Instant::now() + LONG;
    loop {
        match agent.open(thread()).await {
            Ok(thread) => return thread,
            Err(AgentError::Thread(ThreadError::Leased { .. })) if Instant::now() < until => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Goes on: replies to what is asked, says what is to be said, or takes up what was cut off.
pub(super) async fn advance(thread: &mut Thread, watcher: &dyn Watcher) -> Result<TurnStatus, AgentError> {
    match thread.state().next() {
        NextStep::Wait => match SAID.get(heard(thread.state())) {
            Some(words) => thread.say(*words, watcher).await,
            None => Ok(TurnStatus::Idle),
        },
        NextStep::Ask(_) => {
            let TurnStatus::Waiting(waiting) = thread.go_on(watcher).await? else { panic!("nobody waits") };
            thread.reply(&waiting[0].call.id, reply(&waiting[0].question), watcher).await
        }
        _ => thread.go_on(watcher).await,
    }
}

/// Works until a person is needed, or all is done. If a person is needed at once, this process has the reply.
pub(super) async fn work(thread: &mut Thread) -> Result<(), AgentError> {
    while let TurnStatus::Ended(_) = advance(thread, &NoWatcher).await? {}
    Ok(())
}

/// Works until all is done.
pub(super) async fn finish(thread: &mut Thread) -> Result<(), AgentError> {
    while advance(thread, &NoWatcher).await? != TurnStatus::Idle {}
    Ok(())
}

/// How often a person spoke.
pub(super) fn heard(run: &ThreadState) -> usize {
    let users = run.messages().iter().filter(|message| matches!(message.content, Content::User { .. }));
    users.filter(|message| is_scripted(message)).count()
}

/// Whether all is done.
pub(super) fn is_over(run: &ThreadState) -> bool {
    run.next() == NextStep::Wait && heard(run) == SAID.len()
}
