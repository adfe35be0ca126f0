//! Approvals of earlier versions, which name files from the working directory.

use std::path::Path;

use prowess_permission::{Approval, Broker, Kind, Question, RealPath};

use crate::terminal::printable;

/// Replaces approvals of files that earlier versions recorded by approvals of the real path, where only one file can be
/// meant: the working directory has it, and the machine has none of that name. Gives what a person should know of the
/// others, which count for nothing.
pub(super) async fn renew(broker: &Broker, directory: &Path) -> Vec<String> {
    let mut notices = Vec::new();
    for old in broker.remembered().into_iter().filter(is_old) {
        match meant(&old, directory) {
            Some(place) => {
                // What cannot be saved holds for now, and is tried again at the next start.
                let _ = broker.remember(&Question::about_file(old.kind.clone(), place)).await;
            }
            None => notices.push(format!(
                "approvals.json: the approval of {} `{}` is ignored, because it could mean another file now; you will be asked again",
                old.kind,
                printable(old.pattern.as_str())
            )),
        }
        let _ = broker.forget(&old).await;
    }
    notices
}

/// Approvals of files are bound to the real path; earlier ones were bound to nothing.
fn is_old(approval: &Approval) -> bool {
    [Kind::READ, Kind::WRITE].contains(&approval.kind) && approval.binding.is_none()
}

/// The one file that an old approval can mean.
fn meant(old: &Approval, directory: &Path) -> Option<RealPath> {
    let path = old.pattern.only_subject()?.strip_prefix('/')?;
    let (inside, outside) = (directory.join(path), Path::new("/").join(path));
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    (is_there(&inside) && !is_there(&outside)).then(|| RealPath::find(&inside))
}
