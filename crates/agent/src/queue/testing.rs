//! The test suite that every queue of turns must pass.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Claim, ClaimLimits, Failed, Finished, MAX_ATTEMPTS, MAX_VANISHED, Post, PostIf, Posted, Priority,
    QueueError, QueueState, TurnQueue, WORKER_VANISHED,
};
use crate::id::ThreadId;
use crate::message::Message;
use crate::thread::{ThreadError, ThreadStore};
use crate::thread_state::{CallReply, Event};
use crate::tool::ToolAnswer;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
/// Shorter than any test takes. A test that needs its end waits longer.
const SHORT: Duration = Duration::from_millis(30);

/// Runs the suite against a queue that nobody else uses, and that is empty, and the store of its threads. Panics at the first
/// failure.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::MemoryThreads;
/// use prowess_agent::queue::MemoryQueue;
/// use prowess_agent::testing::turn_queue_suite;
///
/// # #[tokio::main]
/// # async fn main() {
/// let store = Arc::new(MemoryThreads::new());
/// turn_queue_suite(Arc::new(MemoryQueue::new(store.clone())), store).await;
/// # }
/// ```
pub async fn turn_queue_suite(queue: Arc<dyn TurnQueue>, store: Arc<dyn ThreadStore>) {
    posts_come_back_in_order(&*queue).await;
    a_reply_counts_once(&*queue).await;
    a_post_for_a_thread_at_rest_is_refused_by_others(&*queue).await;
    only_so_many_posts_wait(&*queue).await;
    of_posts_at_the_same_time_one_finds_the_thread_at_rest(Arc::clone(&queue)).await;
    one_worker_at_a_time(&*queue).await;
    a_claim_ends_with_its_time(&*queue).await;
    a_named_thread_can_be_claimed(&*queue).await;
    a_post_is_found_by_its_name(&*queue).await;
    a_lost_claim_changes_nothing(&*queue).await;
    a_post_during_the_work_queues_again(&*queue).await;
    what_is_given_back_waits(&*queue).await;
    a_delay_ends_by_itself(&*queue).await;
    a_named_claim_that_is_given_back_changes_nothing(&*queue).await;
    what_is_postponed_waits_for_the_next_post(&*queue).await;
    a_thread_can_be_woken_without_a_post(&*queue).await;
    what_is_forgotten_is_gone(&*queue).await;
    the_longest_times_are_no_error(&*queue).await;
    case_143_a_claim_has_the_lease_of_its_thread(&*queue, &*store).await;
    case_144_a_worker_that_wakes_after_its_claim_writes_nothing(&*queue, &*store).await;
    a_thread_that_somebody_else_has_is_not_claimed(&*queue, &*store).await;
    only_so_many_threads_are_claimed(&*queue).await;
    in_all_holds_for_claims_at_the_same_time(Arc::clone(&queue)).await;
    an_urgent_thread_comes_before_others(&*queue).await;
    nothing_waits_forever(&*queue).await;
    case_147_attempts_without_progress_end_as_a_dead_letter(&*queue, &*store).await;
    case_147_a_thread_whose_workers_vanish_is_a_dead_letter(&*queue).await;
    a_worker_that_vanishes_after_an_answer_does_not_count(&*queue, &*store).await;
    a_failure_after_an_answer_does_not_count(&*queue, &*store).await;
    a_failure_after_an_answer_to_a_sub_agent_does_not_count(&*queue, &*store).await;
    what_is_given_back_does_not_count(&*queue, &*store).await;
    a_dead_letter_can_be_retried_or_dropped(&*queue).await;
    the_end_of_a_turn_brings_a_dead_letter_back(&*queue).await;
    the_numbers_say_how_full_it_is(&*queue).await;
    of_many_claims_at_once_each_has_its_thread(Arc::clone(&queue)).await;
    many_posts_and_workers_lose_nothing(queue).await;
}

fn say(text: &str) -> Post {
    Post::say(Message::user(text))
}

fn reply(number: u64, reply: CallReply) -> Post {
    Post::Reply { call: "c".into(), number, reply }
}

async fn post(queue: &dyn TurnQueue, thread: &ThreadId, post: &Post) -> Posted {
    queue.post(thread, post).await.unwrap_or_else(|error| panic!("not posted: {error}"))
}

async fn claimed(queue: &dyn TurnQueue, worker: &str, lasts: Duration) -> Claim {
    let claim = queue
        .claim(worker, lasts, ClaimLimits::default())
        .await
        .unwrap_or_else(|error| panic!("not claimed: {error}"));
    let Some(claim) = claim else { panic!("nothing waits for {worker}: {:#?}", queue.list(20).await) };
    claim
}

async fn none_waits(queue: &dyn TurnQueue) {
    assert_eq!(queue.claim("nobody", LONG, ClaimLimits::default()).await.ok().flatten(), None);
}

/// The same claim for another time.
fn lasting(claim: &Claim, lasts: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.lease.lasts = lasts;
    claim
}

/// Takes every post and lets the thread rest.
async fn settle(queue: &dyn TurnQueue, claim: &Claim) -> Vec<Post> {
    let inbox = queue.inbox(claim).await.unwrap_or_else(|error| panic!("no inbox: {error}"));
    for entry in &inbox.entries {
        queue.taken(claim, entry.number).await.unwrap_or_else(|error| panic!("not taken: {error}"));
    }
    let finished = queue.finish(claim, inbox.posted).await;
    assert_eq!(finished.ok(), Some(Finished::Rests));
    inbox.entries.into_iter().map(|entry| entry.post).collect()
}

async fn posts_come_back_in_order(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Rests));
    let posts = [say("one \u{0} 🦀"), reply(3, CallReply::Approve), Post::Cancel { turn: 1 }];
    for one in &posts {
        assert_eq!(post(queue, &thread, one).await, Posted::New);
    }
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Queued));
    let claim = claimed(queue, "one", LONG).await;
    assert_eq!((claim.thread(), claim.attempt), (&thread, 1));
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Claimed));
    assert_eq!(settle(queue, &claim).await, posts);
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Rests));
    none_waits(queue).await;
}

async fn a_reply_counts_once(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    assert_eq!(post(queue, &thread, &reply(3, CallReply::Approve)).await, Posted::New);
    assert_eq!(post(queue, &thread, &reply(3, CallReply::Always)).await, Posted::Known);
    assert_eq!(post(queue, &thread, &reply(4, CallReply::Always)).await, Posted::New);
    let claim = claimed(queue, "one", LONG).await;
    let posts = settle(queue, &claim).await;
    assert_eq!(posts, [reply(3, CallReply::Approve), reply(4, CallReply::Always)]);
    // Also after it was taken, and that queues nothing.
    assert_eq!(post(queue, &thread, &reply(3, CallReply::Always)).await, Posted::Known);
    none_waits(queue).await;
}

async fn post_if(queue: &dyn TurnQueue, thread: &ThreadId, post: &Post, condition: PostIf) -> Posted {
    let posted = queue.post_if(thread, post, condition).await;
    posted.unwrap_or_else(|error| panic!("not posted: {error}"))
}

async fn a_post_for_a_thread_at_rest_is_refused_by_others(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    let first = say("a");
    assert_eq!(post_if(queue, &thread, &first, PostIf::Rests).await, Posted::New);
    assert_eq!(post_if(queue, &thread, &say("b"), PostIf::Rests).await, Posted::Refused);
    // A second time, it is known rather than refused.
    assert_eq!(post_if(queue, &thread, &first, PostIf::Rests).await, Posted::Known);
    let claim = claimed(queue, "one", LONG).await;
    assert_eq!(post_if(queue, &thread, &say("c"), PostIf::Rests).await, Posted::Refused);
    assert_eq!(settle(queue, &claim).await, std::slice::from_ref(&first));
    // What is known does not queue the thread, and neither does what is refused.
    assert_eq!(post_if(queue, &thread, &first, PostIf::Rests).await, Posted::Known);
    none_waits(queue).await;
    let last = say("d");
    assert_eq!(post_if(queue, &thread, &last, PostIf::Rests).await, Posted::New);
    let claim = claimed(queue, "one", LONG).await;
    assert_eq!(settle(queue, &claim).await, [last]);
}

async fn a_named_thread_can_be_claimed(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    let claim =
        async || queue.claim_thread(&thread, "one", LONG).await.unwrap_or_else(|error| panic!("{error}"));
    // It rests.
    let first = claim().await.unwrap_or_else(|| panic!("not claimed"));
    assert_eq!(claim().await, None);
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Claimed));
    none_waits(queue).await;
    assert_eq!(post(queue, &thread, &say("a")).await, Posted::New);
    assert_eq!(queue.finish(&first, 0).await.ok(), Some(Finished::Queued));
    // It is queued.
    let second = claim().await.unwrap_or_else(|| panic!("not claimed"));
    assert!(matches!(queue.keep(&first).await, Err(QueueError::ClaimLost(_))));
    assert!(queue.give_back(&second, LONG).await.is_ok());
    // It waits after a delay, which a post ends.
    let third = claim().await.unwrap_or_else(|| panic!("not claimed"));
    assert!(queue.give_back(&third, LONG).await.is_ok());
    none_waits(queue).await;
    assert_eq!(post(queue, &thread, &say("b")).await, Posted::New);
    let last = claimed(queue, "two", LONG).await;
    assert_eq!(last.thread(), &thread);
    assert_eq!(settle(queue, &last).await.len(), 2);
}

async fn a_post_is_found_by_its_name(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    let cancel = Post::Cancel { turn: 4 };
    let posts = [say("a"), cancel.clone()];
    for one in &posts {
        assert_eq!(post(queue, &thread, one).await, Posted::New);
    }
    let waiting = async || queue.waiting(&thread).await.unwrap_or_else(|error| panic!("{error}"));
    let told: Vec<Post> = waiting().await.into_iter().map(|entry| entry.post).collect();
    assert_eq!(told, posts);
    let claim = claimed(queue, "one", LONG).await;
    let number = queue.waits(&claim, &cancel.key()).await.ok().flatten();
    let number = number.unwrap_or_else(|| panic!("the post does not wait"));
    assert_eq!(queue.waits(&claim, "cancel-5").await.ok(), Some(None));
    assert!(queue.taken(&claim, number).await.is_ok());
    assert_eq!(queue.waits(&claim, &cancel.key()).await.ok(), Some(None));
    assert_eq!(waiting().await.len(), 1);
    settle(queue, &claim).await;
    assert!(waiting().await.is_empty());
    assert!(matches!(queue.waits(&claim, "cancel-4").await, Err(QueueError::ClaimLost(_))));
}

async fn only_so_many_posts_wait(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    let most = PostIf::FewerWait(2);
    let (one, two) = (say("1"), say("2"));
    assert_eq!(post_if(queue, &thread, &one, PostIf::FewerWait(0)).await, Posted::Refused);
    none_waits(queue).await;
    assert_eq!(post_if(queue, &thread, &one, most).await, Posted::New);
    assert_eq!(post_if(queue, &thread, &two, most).await, Posted::New);
    assert_eq!(post_if(queue, &thread, &say("3"), most).await, Posted::Refused);
    assert_eq!(post_if(queue, &thread, &two, most).await, Posted::Known);
    let claim = claimed(queue, "one", LONG).await;
    let Ok(inbox) = queue.inbox(&claim).await else { panic!("no inbox") };
    assert!(queue.taken(&claim, inbox.entries[0].number).await.is_ok());
    // What was taken does not wait any more.
    let late = say("4");
    assert_eq!(post_if(queue, &thread, &late, most).await, Posted::New);
    assert_eq!(settle(queue, &claim).await, [two, late]);
}

async fn of_posts_at_the_same_time_one_finds_the_thread_at_rest(queue: Arc<dyn TurnQueue>) {
    const POSTS: usize = 8;
    let thread = ThreadId::new();
    let posting: Vec<_> = (0..POSTS)
        .map(|number| {
            let (queue, thread) = (Arc::clone(&queue), thread.clone());
            tokio::spawn(
                async move { post_if(&*queue, &thread, &say(&number.to_string()), PostIf::Rests).await },
            )
        })
        .collect();
    let mut posted = Vec::new();
    for one in posting {
        posted.extend(one.await.ok());
    }
    assert_eq!(posted.len(), POSTS);
    assert_eq!(posted.iter().filter(|posted| **posted == Posted::New).count(), 1);
    assert_eq!(posted.iter().filter(|posted| **posted == Posted::Refused).count(), POSTS - 1);
    let claim = claimed(&*queue, "one", LONG).await;
    assert_eq!(settle(&*queue, &claim).await.len(), 1);
}

async fn one_worker_at_a_time(queue: &dyn TurnQueue) {
    let (one, other) = (ThreadId::new(), ThreadId::new());
    post(queue, &one, &say("a")).await;
    post(queue, &other, &say("b")).await;
    let first = claimed(queue, "one", LONG).await;
    let second = claimed(queue, "one", LONG).await;
    assert_eq!((first.thread(), second.thread()), (&one, &other), "who waited for longer comes first");
    assert_ne!(first.lease.owner, second.lease.owner);
    none_waits(queue).await;
    settle(queue, &first).await;
    settle(queue, &second).await;
}

async fn a_claim_ends_with_its_time(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let first = claimed(queue, "one", SHORT).await;
    // Nobody else took it, so it still counts.
    tokio::time::sleep(SHORT * 2).await;
    assert!(queue.keep(&lasting(&first, LONG)).await.is_ok());
    none_waits(queue).await;
    assert!(queue.keep(&first).await.is_ok());
    tokio::time::sleep(SHORT * 2).await;
    let second = claimed(queue, "two", LONG).await;
    assert_eq!((second.thread(), second.attempt), (&thread, 2));
    assert_eq!(settle(queue, &second).await.len(), 1);
}

async fn a_lost_claim_changes_nothing(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let lost = claimed(queue, "one", SHORT).await;
    tokio::time::sleep(SHORT * 2).await;
    let claim = claimed(queue, "two", LONG).await;
    let is_lost = |error: QueueError| matches!(error, QueueError::ClaimLost(_));
    assert!(queue.keep(&lost).await.is_err_and(is_lost));
    assert!(queue.inbox(&lost).await.is_err_and(is_lost));
    assert!(queue.taken(&lost, 1).await.is_err_and(is_lost));
    assert!(queue.finish(&lost, 1).await.is_err_and(is_lost));
    assert!(queue.give_back(&lost, SHORT).await.is_err_and(is_lost));
    assert_eq!(settle(queue, &claim).await.len(), 1);
    assert!(queue.finish(&claim, 1).await.is_err_and(is_lost));
}

async fn a_post_during_the_work_queues_again(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", LONG).await;
    let Ok(inbox) = queue.inbox(&claim).await else { panic!("no inbox") };
    let late = say("b");
    post(queue, &thread, &late).await;
    assert!(queue.taken(&claim, inbox.entries[0].number).await.is_ok());
    assert_eq!(queue.finish(&claim, inbox.posted).await.ok(), Some(Finished::Queued));
    let again = claimed(queue, "two", LONG).await;
    assert_eq!(again.attempt, 1, "the thread has come to rest between them");
    assert_eq!(settle(queue, &again).await, [late]);
}

async fn what_is_given_back_waits(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", LONG).await;
    assert!(queue.give_back(&claim, LONG).await.is_ok());
    none_waits(queue).await;
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Queued));
    assert!(queue.forget(&thread).await.is_ok());
    post(queue, &thread, &say("b")).await;
    let claim = claimed(queue, "one", LONG).await;
    assert!(queue.give_back(&claim, Duration::ZERO).await.is_ok());
    let again = claimed(queue, "one", LONG).await;
    assert_eq!(again.attempt, 2);
    settle(queue, &again).await;
}

async fn a_delay_ends_by_itself(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", LONG).await;
    assert!(queue.fail(&claim, SHORT, "a").await.is_ok());
    tokio::time::sleep(SHORT * 2).await;
    let Ok(numbers) = queue.numbers(ClaimLimits::default()).await else { panic!("no numbers") };
    assert_eq!((numbers.queued, numbers.waiting), (1, 0), "even if no worker looked");
    let claim = claimed(queue, "one", LONG).await;
    settle(queue, &claim).await;
}

async fn a_named_claim_that_is_given_back_changes_nothing(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim_and_give_back = async || {
        let claim = queue.claim_thread(&thread, "deletion", LONG).await;
        let Ok(Some(claim)) = claim else { panic!("not claimed: {claim:?}") };
        assert!(queue.give_back(&claim, Duration::ZERO).await.is_ok());
    };
    for _ in 0..MAX_ATTEMPTS {
        claim_and_give_back().await;
        let claim = claimed(queue, "one", LONG).await;
        assert!(queue.fail(&claim, Duration::ZERO, "it is poisoned").await.is_ok());
    }
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Dead));
    claim_and_give_back().await;
    none_waits(queue).await;
    let listed = queue.list(10).await.unwrap_or_default();
    let [letter] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((letter.state, letter.failures), (QueueState::Dead, MAX_ATTEMPTS));
    assert_eq!(letter.problem.as_deref(), Some("it is poisoned"));
    // While somebody has it, nobody else decides about it.
    let claim = queue.claim_thread(&thread, "deletion", LONG).await;
    let Ok(Some(claim)) = claim else { panic!("not claimed: {claim:?}") };
    assert_eq!(queue.retry(&thread).await.ok(), Some(false));
    assert_eq!(queue.drop_work(&thread).await.ok(), Some(false));
    assert!(queue.keep(&claim).await.is_ok());
    settle(queue, &claim).await;
}

async fn what_is_postponed_waits_for_the_next_post(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", LONG).await;
    let Ok(inbox) = queue.inbox(&claim).await else { panic!("no inbox") };
    assert_eq!(queue.postpone(&claim, inbox.posted, LONG).await.ok(), Some(Finished::Rests));
    none_waits(queue).await;
    post(queue, &thread, &say("b")).await;
    let claim = claimed(queue, "one", LONG).await;
    // A post between the look and the end of the claim waits for nothing.
    let Ok(inbox) = queue.inbox(&claim).await else { panic!("no inbox") };
    post(queue, &thread, &say("c")).await;
    assert_eq!(queue.postpone(&claim, inbox.posted, LONG).await.ok(), Some(Finished::Queued));
    let last = claimed(queue, "one", LONG).await;
    assert!(queue.postpone(&claim, inbox.posted, LONG).await.is_err());
    assert_eq!(settle(queue, &last).await.len(), 3);
}

async fn a_thread_can_be_woken_without_a_post(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    assert!(queue.wake(&thread).await.is_ok());
    let claim = claimed(queue, "one", LONG).await;
    let Ok(inbox) = queue.inbox(&claim).await else { panic!("no inbox") };
    assert!(inbox.entries.is_empty());
    assert!(queue.wake(&thread).await.is_ok());
    assert_eq!(queue.finish(&claim, inbox.posted).await.ok(), Some(Finished::Queued));
    let again = claimed(queue, "one", LONG).await;
    settle(queue, &again).await;
}

async fn what_is_forgotten_is_gone(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &reply(1, CallReply::Approve)).await;
    assert!(queue.forget(&thread).await.is_ok());
    none_waits(queue).await;
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Rests));
    assert_eq!(post(queue, &thread, &reply(1, CallReply::Approve)).await, Posted::New);
    let claim = claimed(queue, "one", LONG).await;
    settle(queue, &claim).await;
}

async fn the_longest_times_are_no_error(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", Duration::MAX).await;
    assert!(queue.keep(&claim).await.is_ok());
    assert!(queue.give_back(&claim, Duration::MAX).await.is_ok());
    none_waits(queue).await;
    assert!(queue.forget(&thread).await.is_ok());
}

/// Each of many posts is taken exactly once, whoever posts and works at the same time.
async fn many_posts_and_workers_lose_nothing(queue: Arc<dyn TurnQueue>) {
    const THREADS: usize = 4;
    const POSTS: usize = 25;
    let threads: Vec<ThreadId> = (0..THREADS).map(|_| ThreadId::new()).collect();
    let posting: Vec<_> = threads
        .iter()
        .map(|thread| {
            let (queue, thread) = (Arc::clone(&queue), thread.clone());
            tokio::spawn(async move {
                for number in 0..POSTS {
                    post(&*queue, &thread, &say(&number.to_string())).await;
                }
            })
        })
        .collect();
    let working: Vec<_> = (0..3)
        .map(|worker| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                let mut taken = Vec::new();
                let mut idle = 0;
                while idle < 200 {
                    let Ok(Some(claim)) =
                        queue.claim(&format!("worker {worker}"), LONG, ClaimLimits::default()).await
                    else {
                        idle += 1;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        continue;
                    };
                    idle = 0;
                    let Ok(inbox) = queue.inbox(&claim).await else { panic!("a held claim was lost") };
                    for entry in inbox.entries {
                        let Post::Say { message, .. } = &entry.post else { panic!("{entry:?}") };
                        taken.push((claim.thread().clone(), message.text()));
                        assert!(queue.taken(&claim, entry.number).await.is_ok());
                    }
                    assert!(queue.finish(&claim, inbox.posted).await.is_ok());
                }
                taken
            })
        })
        .collect();
    for one in posting {
        assert!(one.await.is_ok());
    }
    let mut taken = Vec::new();
    for one in working {
        taken.extend(one.await.unwrap_or_default());
    }
    for thread in &threads {
        let mut numbers: Vec<usize> =
            taken.iter().filter(|(id, _)| id == thread).filter_map(|(_, text)| text.parse().ok()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..POSTS).collect::<Vec<_>>());
        assert_eq!(queue.state(thread).await.ok(), Some(QueueState::Rests));
    }
}

fn answered() -> Event {
    Event::ToolAnswered { call: "c".into(), answer: ToolAnswer::text("Done.") }
}

fn said() -> Event {
    Event::TurnStarted { messages: vec![Message::user("Hi.")] }
}

async fn case_143_a_claim_has_the_lease_of_its_thread(queue: &dyn TurnQueue, store: &dyn ThreadStore) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let claim = claimed(queue, "one", LONG).await;
    let other = store.lease(&thread, "another", LONG).await;
    assert!(matches!(other, Err(ThreadError::Leased { .. })), "{other:?}");
    assert!(store.append(&claim.lease, 0, &[said()]).await.is_ok());
    assert!(queue.keep(&claim).await.is_ok());
    assert!(store.append(&claim.lease, 1, &[answered()]).await.is_ok(), "it is the same lease");
    settle(queue, &claim).await;
    // The lease has ended with the claim.
    let lease = store.lease(&thread, "another", LONG).await;
    assert!(lease.as_ref().is_ok_and(|lease| lease.epoch > claim.lease.epoch), "{lease:?}");
    if let Ok(lease) = lease {
        assert!(store.release(&lease).await.is_ok());
    }
}

async fn case_144_a_worker_that_wakes_after_its_claim_writes_nothing(
    queue: &dyn TurnQueue,
    store: &dyn ThreadStore,
) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    let late = claimed(queue, "one", SHORT).await;
    tokio::time::sleep(SHORT * 2).await;
    let claim = claimed(queue, "one", LONG).await;
    assert!(claim.takes_over && !late.takes_over);
    assert!(claim.lease.epoch > late.lease.epoch, "the same worker is another owner");
    let refused = store.append(&late.lease, 0, &[said()]).await;
    assert!(matches!(refused, Err(ThreadError::LeaseLost(_))), "{refused:?}");
    assert!(queue.keep(&late).await.is_err());
    assert!(store.release(&late.lease).await.is_ok(), "that has no effect");
    assert!(store.append(&claim.lease, 0, &[said()]).await.is_ok());
    settle(queue, &claim).await;
}

async fn a_thread_that_somebody_else_has_is_not_claimed(queue: &dyn TurnQueue, store: &dyn ThreadStore) {
    let thread = ThreadId::new();
    let Ok(lease) = store.lease(&thread, "a chat", LONG).await else { panic!("no lease") };
    post(queue, &thread, &say("a")).await;
    none_waits(queue).await;
    assert_eq!(queue.claim_thread(&thread, "one", LONG).await.ok().flatten(), None);
    assert!(store.release(&lease).await.is_ok());
    let claim = claimed(queue, "one", LONG).await;
    settle(queue, &claim).await;
}

async fn only_so_many_threads_are_claimed(queue: &dyn TurnQueue) {
    for _ in 0..2 {
        post(queue, &ThreadId::new(), &say("a")).await;
    }
    let limits = ClaimLimits { in_all: 1, ..ClaimLimits::default() };
    let Ok(Some(first)) = queue.claim("one", LONG, limits).await else { panic!("nothing waits") };
    assert_eq!(queue.claim("two", LONG, limits).await.ok(), Some(None));
    settle(queue, &first).await;
    let Ok(Some(second)) = queue.claim("two", LONG, limits).await else { panic!("nothing waits") };
    settle(queue, &second).await;
}

async fn in_all_holds_for_claims_at_the_same_time(queue: Arc<dyn TurnQueue>) {
    const MOST: u64 = 3;
    for _ in 0..3 * MOST {
        post(&*queue, &ThreadId::new(), &say("a")).await;
    }
    let limits = ClaimLimits { in_all: MOST, ..ClaimLimits::default() };
    for _ in 0..3 {
        let claiming: Vec<_> = (0..3 * MOST)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.claim("one", LONG, limits).await })
            })
            .collect();
        let mut claims = Vec::new();
        for one in claiming {
            let claim = one.await.map(|claim| claim.unwrap_or_else(|error| panic!("not claimed: {error}")));
            claims.extend(claim.ok().flatten());
        }
        assert_eq!(claims.len() as u64, MOST);
        for claim in &claims {
            settle(&*queue, claim).await;
        }
    }
    none_waits(&*queue).await;
}

/// Threads that rest and are queued again without end do not hold up one that is worth less.
async fn nothing_waits_forever(queue: &dyn TurnQueue) {
    for others in [1, 3] {
        let low = ThreadId::new();
        let others: Vec<_> = (0..others).map(|_| ThreadId::new()).collect();
        post(queue, &low, &Post::Say { message: Message::user("a"), priority: Priority::Low }).await;
        for thread in &others {
            post(queue, thread, &say("a")).await;
        }
        let places = usize::try_from(Priority::PLACES).unwrap_or_default() + others.len() + 1;
        let mut claims = 0;
        loop {
            let claim = claimed(queue, "one", LONG).await;
            settle(queue, &claim).await;
            if claim.thread() == &low {
                break;
            }
            claims += 1;
            assert!(claims <= places, "the thread still waits");
            post(queue, claim.thread(), &say("a")).await;
        }
        for thread in &others {
            assert!(queue.forget(thread).await.is_ok());
        }
    }
}

async fn an_urgent_thread_comes_before_others(queue: &dyn TurnQueue) {
    let threads =
        [Priority::Low, Priority::Normal, Priority::High].map(|priority| (ThreadId::new(), priority));
    for (thread, priority) in &threads {
        post(queue, thread, &Post::Say { message: Message::user("a"), priority: *priority }).await;
    }
    for (thread, _) in threads.iter().rev() {
        let claim = claimed(queue, "one", LONG).await;
        assert_eq!(claim.thread(), thread);
        settle(queue, &claim).await;
    }
}

async fn case_147_attempts_without_progress_end_as_a_dead_letter(
    queue: &dyn TurnQueue,
    store: &dyn ThreadStore,
) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    for attempt in 1..=MAX_ATTEMPTS {
        let claim = claimed(queue, "one", LONG).await;
        if attempt == 1 {
            // Events are no progress; answers are.
            assert!(store.append(&claim.lease, 0, &[said()]).await.is_ok());
        }
        let failed = queue.fail(&claim, Duration::ZERO, "it is poisoned \u{0}").await;
        let expected = if attempt < MAX_ATTEMPTS { Failed::Again } else { Failed::Dead };
        assert_eq!(failed.ok(), Some(expected), "{attempt}");
        assert!(queue.fail(&claim, Duration::ZERO, "again").await.is_err(), "the claim has ended");
    }
    none_waits(queue).await;
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Dead));
    // Another message does not bring it back.
    post(queue, &thread, &say("b")).await;
    none_waits(queue).await;
    let listed = queue.list(10).await.unwrap_or_default();
    let [letter] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&letter.thread, letter.state), (&thread, QueueState::Dead));
    assert_eq!(letter.problem.as_deref(), Some("it is poisoned \u{0}"));
    assert_eq!((letter.attempts, letter.failures), (MAX_ATTEMPTS, MAX_ATTEMPTS));
    assert!(queue.forget(&thread).await.is_ok());
}

async fn case_147_a_thread_whose_workers_vanish_is_a_dead_letter(queue: &dyn TurnQueue) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    for _ in 0..MAX_VANISHED {
        let claim = claimed(queue, "one", SHORT).await;
        assert_eq!(claim.thread(), &thread);
        tokio::time::sleep(SHORT * 2).await;
        assert!(queue.take_dead_letters().is_empty());
    }
    none_waits(queue).await;
    none_waits(queue).await;
    assert_eq!(queue.take_dead_letters(), std::slice::from_ref(&thread));
    assert!(queue.take_dead_letters().is_empty(), "it is told once");
    let listed = queue.list(10).await.unwrap_or_default();
    let [letter] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(letter.state, QueueState::Dead);
    assert_eq!(letter.problem.as_deref(), Some(WORKER_VANISHED));
    assert!(queue.forget(&thread).await.is_ok());
}

/// More attempts of this kind than may make no progress, and then a thread that is as good as new.
async fn do_not_count(
    queue: &dyn TurnQueue,
    store: &dyn ThreadStore,
    lasts: Duration,
    most: u32,
    answers: bool,
    attempt: impl AsyncFn(&Claim),
) {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    for number in 0..=u64::from(most) {
        let claim = claimed(queue, "one", lasts).await;
        assert_eq!(claim.thread(), &thread);
        if answers {
            assert!(store.append(&claim.lease, number, &[answered()]).await.is_ok());
        }
        attempt(&claim).await;
    }
    let claim = claimed(queue, "one", LONG).await;
    let listed = queue.list(10).await.unwrap_or_default();
    assert_eq!(listed.iter().map(|thread| thread.failures).collect::<Vec<_>>(), [0]);
    settle(queue, &claim).await;
}

async fn a_worker_that_vanishes_after_an_answer_does_not_count(
    queue: &dyn TurnQueue,
    store: &dyn ThreadStore,
) {
    do_not_count(queue, store, SHORT, MAX_VANISHED, true, async |_| tokio::time::sleep(SHORT * 2).await)
        .await;
    assert!(queue.take_dead_letters().is_empty());
}

async fn a_failure_after_an_answer_does_not_count(queue: &dyn TurnQueue, store: &dyn ThreadStore) {
    let fails = async |claim: &Claim| {
        assert_eq!(queue.fail(claim, Duration::ZERO, "a").await.ok(), Some(Failed::Again));
    };
    do_not_count(queue, store, LONG, MAX_ATTEMPTS, true, fails).await;
}

async fn a_failure_after_an_answer_to_a_sub_agent_does_not_count(
    queue: &dyn TurnQueue,
    store: &dyn ThreadStore,
) {
    let fails = async |claim: &Claim| {
        assert!(queue.progressed(claim).await.is_ok());
        assert_eq!(queue.fail(claim, Duration::ZERO, "a").await.ok(), Some(Failed::Again));
    };
    do_not_count(queue, store, LONG, MAX_ATTEMPTS, false, fails).await;
}

async fn what_is_given_back_does_not_count(queue: &dyn TurnQueue, store: &dyn ThreadStore) {
    let gives_back = async |claim: &Claim| {
        assert!(queue.give_back(claim, Duration::ZERO).await.is_ok());
    };
    do_not_count(queue, store, LONG, MAX_ATTEMPTS, false, gives_back).await;
}

/// A dead letter with one message.
async fn dead_letter(queue: &dyn TurnQueue) -> ThreadId {
    let thread = ThreadId::new();
    post(queue, &thread, &say("a")).await;
    for _ in 0..MAX_ATTEMPTS {
        let claim = claimed(queue, "one", LONG).await;
        assert!(queue.fail(&claim, Duration::ZERO, "a").await.is_ok());
    }
    assert_eq!(queue.state(&thread).await.ok(), Some(QueueState::Dead));
    thread
}

async fn a_dead_letter_can_be_retried_or_dropped(queue: &dyn TurnQueue) {
    let thread = dead_letter(queue).await;
    assert_eq!(queue.retry(&thread).await.ok(), Some(true));
    assert_eq!(queue.retry(&thread).await.ok(), Some(false), "it is none any more");
    assert_eq!(queue.drop_work(&thread).await.ok(), Some(false));
    let claim = claimed(queue, "one", LONG).await;
    assert_eq!(settle(queue, &claim).await.len(), 1);

    let thread = dead_letter(queue).await;
    assert_eq!(queue.drop_work(&thread).await.ok(), Some(true));
    let claim = claimed(queue, "one", LONG).await;
    let posts = settle(queue, &claim).await;
    assert!(matches!(&posts[..], [Post::End { .. }]), "{posts:?}");
}

async fn the_end_of_a_turn_brings_a_dead_letter_back(queue: &dyn TurnQueue) {
    let thread = dead_letter(queue).await;
    post(queue, &thread, &Post::Cancel { turn: 1 }).await;
    let claim = claimed(queue, "one", LONG).await;
    assert_eq!(settle(queue, &claim).await.len(), 2);
}

async fn the_numbers_say_how_full_it_is(queue: &dyn TurnQueue) {
    let threads = [ThreadId::new(), ThreadId::new(), ThreadId::new()];
    for thread in &threads {
        post(queue, thread, &say("a")).await;
    }
    let working = claimed(queue, "one", LONG).await;
    let waiting = claimed(queue, "one", LONG).await;
    assert!(queue.give_back(&waiting, LONG).await.is_ok());
    tokio::time::sleep(SHORT).await;
    let numbers = async |in_all| {
        let numbers = queue.numbers(ClaimLimits { in_all, ..ClaimLimits::default() }).await;
        numbers.unwrap_or_else(|error| panic!("no numbers: {error}"))
    };
    let room = numbers(2).await;
    assert_eq!((room.queued, room.waiting, room.working, room.dead), (1, 1, 1, 0));
    assert!(room.age >= SHORT && room.age < LONG, "{room:?}");
    let full = numbers(1).await;
    assert_eq!((full.queued, full.waiting, full.working, full.age), (0, 2, 1, Duration::ZERO));
    settle(queue, &working).await;
    for thread in &threads {
        assert!(queue.forget(thread).await.is_ok());
    }
}

async fn of_many_claims_at_once_each_has_its_thread(queue: Arc<dyn TurnQueue>) {
    const THREADS: usize = 12;
    for _ in 0..THREADS {
        post(&*queue, &ThreadId::new(), &say("a")).await;
    }
    let claiming: Vec<_> = (0..THREADS)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { claimed(&*queue, "one", LONG).await })
        })
        .collect();
    let mut claims = Vec::new();
    for one in claiming {
        claims.extend(one.await);
    }
    let threads: std::collections::BTreeSet<_> = claims.iter().map(Claim::thread).collect();
    assert_eq!(threads.len(), THREADS);
    for claim in &claims {
        settle(&*queue, claim).await;
    }
    none_waits(&*queue).await;
}
