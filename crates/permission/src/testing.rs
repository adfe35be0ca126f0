//! The test suite for an [`ApprovalStore`].

use std::sync::Arc;

use crate::{Approval, ApprovalStore, Kind, Pattern};

/// How many handles add at the same time, and how many approvals each.
const HANDLES: usize = 8;
const EACH: usize = 12;

/// Checks that a store keeps its promises, and panics if it does not.
///
/// Each call of `open` returns a new handle to the same store, which is empty at first. Use a runtime with several threads,
/// so that additions really happen at the same time.
///
/// ```
/// use std::sync::Arc;
/// use prowess_permission::testing::approval_store_suite;
/// use prowess_permission::{ApprovalStore, MemoryApprovals};
///
/// # #[tokio::main]
/// # async fn main() {
/// let store = Arc::new(MemoryApprovals::new());
/// approval_store_suite(|| Arc::clone(&store) as Arc<dyn ApprovalStore>).await;
/// # }
/// ```
///
/// # Panics
///
/// If a promise is broken.
pub async fn approval_store_suite(open: impl Fn() -> Arc<dyn ApprovalStore>) {
    keeps_what_it_is_given(&open).await;
    loses_nothing_to_others(&open).await;
}

fn approval(project: &str, pattern: &str, binding: Option<&str>) -> Approval {
    Approval {
        project: project.to_owned(),
        kind: Kind::RUN,
        pattern: Pattern::literal(pattern),
        binding: binding.map(ToOwned::to_owned),
    }
}

async fn keeps_what_it_is_given(open: &impl Fn() -> Arc<dyn ApprovalStore>) {
    let store = open();
    let load = async |project: &str| open().load(project).await.expect("loading works");
    assert_eq!(load("kept").await, [], "a store begins empty");

    let odd = "a * b? \\ \"quoted\"\n🦀 \u{0}";
    let given = [
        approval("kept", odd, None),
        approval("kept", odd, Some("sha256:1 /a")),
        approval("kept", odd, Some("")),
        approval("kept ", odd, None),
    ];
    store.add(&given).await.expect("adding works");
    store.add(&given[..2]).await.expect("adding again works");
    store.add(&[]).await.expect("adding nothing works");
    assert_eq!(load("kept").await, given[..3], "all of the project, in order, once each");
    assert_eq!(load("kept ").await, given[3..], "projects are told apart exactly");
    assert_eq!(load("").await, [], "an empty name is a project like any other");

    store.remove(&given[1]).await.expect("removing works");
    store.remove(&given[1]).await.expect("what is not there is removed already");
    assert_eq!(load("kept").await, [given[0].clone(), given[2].clone()], "a binding tells approvals apart");
}

async fn loses_nothing_to_others(open: &impl Fn() -> Arc<dyn ApprovalStore>) {
    let adding: Vec<_> = (0..HANDLES)
        .map(|handle| {
            let store = open();
            tokio::spawn(async move {
                for number in 0..EACH {
                    let one = approval("shared", &format!("{handle}/{number}"), None);
                    store.add(&[one]).await.expect("adding works while others add");
                }
            })
        })
        .collect();
    for added in adding {
        added.await.expect("no handle fails");
    }
    let kept = open().load("shared").await.expect("loading works");
    assert_eq!(kept.len(), HANDLES * EACH, "nothing is lost");
    for handle in 0..HANDLES {
        for number in 0..EACH {
            assert!(kept.contains(&approval("shared", &format!("{handle}/{number}"), None)));
        }
    }
}
