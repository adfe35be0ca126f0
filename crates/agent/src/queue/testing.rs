//! The test suite that every queue of turns must pass.

use std::sync::Arc;
use std::time::Duration;

use super::{Claim, Finished, Post, PostIf, Posted, QueueError, QueueState, TurnQueue};
use crate::id::ThreadId;
use crate::message::Message;
use crate::thread_state::CallReply;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
/// Shorter than any test takes. A test that needs its end waits longer.
const SHORT: Duration = Duration::from_millis(30);

/// Runs the suite against a queue that nobody else uses, and that is empty. Panics at the first failure.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::queue::MemoryQueue;
/// use prowess_agent::testing::turn_queue_suite;
///
/// # #[tokio::main]
/// # async fn main() {
/// turn_queue_suite(Arc::new(MemoryQueue::new())).await;
/// # }
/// ```
pub async fn turn_queue_suite(queue: Arc<dyn TurnQueue>) {
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
    what_is_postponed_waits_for_the_next_post(&*queue).await;
    a_thread_can_be_woken_without_a_post(&*queue).await;
    what_is_forgotten_is_gone(&*queue).await;
    the_longest_times_are_no_error(&*queue).await;
    many_posts_and_workers_lose_nothing(queue).await;
}

fn say(text: &str) -> Post {
    Post::Say { message: Message::user(text) }
}

fn reply(number: u64, reply: CallReply) -> Post {
    Post::Reply { call: "c".into(), number, reply }
}

async fn post(queue: &dyn TurnQueue, thread: &ThreadId, post: &Post) -> Posted {
    queue.post(thread, post).await.unwrap_or_else(|error| panic!("not posted: {error}"))
}

async fn claimed(queue: &dyn TurnQueue, worker: &str, lasts: Duration) -> Claim {
    let claim = queue.claim(worker, lasts).await.unwrap_or_else(|error| panic!("not claimed: {error}"));
    claim.unwrap_or_else(|| panic!("nothing waits for {worker}"))
}

async fn none_waits(queue: &dyn TurnQueue) {
    assert_eq!(queue.claim("nobody", LONG).await.ok().flatten(), None);
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
    assert_eq!((&claim.thread, claim.attempt), (&thread, 1));
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
    assert_eq!(last.thread, thread);
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
    assert_eq!((&first.thread, &second.thread), (&one, &other), "who waited for longer comes first");
    assert_ne!(first.owner, second.owner);
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
    assert!(queue.keep(&Claim { lasts: LONG, ..first.clone() }).await.is_ok());
    none_waits(queue).await;
    assert!(queue.keep(&first).await.is_ok());
    tokio::time::sleep(SHORT * 2).await;
    let second = claimed(queue, "two", LONG).await;
    assert_eq!((&second.thread, second.attempt), (&thread, 2));
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
                    let Ok(Some(claim)) = queue.claim(&format!("worker {worker}"), LONG).await else {
                        idle += 1;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        continue;
                    };
                    idle = 0;
                    let Ok(inbox) = queue.inbox(&claim).await else { panic!("a held claim was lost") };
                    for entry in inbox.entries {
                        let Post::Say { message } = &entry.post else { panic!("{entry:?}") };
                        taken.push((claim.thread.clone(), message.text()));
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
