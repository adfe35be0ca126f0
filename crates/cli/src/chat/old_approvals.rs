//! Converts file approvals of old versions, which were relative to the working directory.

use std::path::Path;

use prowess_permission::{Approval, Broker, Kind, Question, RealPath};

use crate::terminal::printable;

/// Replaces old file approvals with approvals of the real path, if only one file can be meant: the working directory
/// has it, and the machine has no file of that name. Returns notices about the others, which are ignored.
pub(super) async fn renew(broker: &Broker, directory: &Path) -> Vec<String> {
    let mut notices = Vec::new();
    for old in broker.remembered().into_iter().filter(is_old) {
        match intended_file(&old, directory) {
            Some(place) => {
                // If this cannot be saved, it is valid for now, and the next start tries again.
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

/// Approvals of files are bound to the real path; old ones had no binding.
fn is_old(approval: &Approval) -> bool {
    [Kind::READ, Kind::WRITE].contains(&approval.kind) && approval.binding.is_none()
}

/// The only file that an old approval can mean.
fn intended_file(old: &Approval, directory: &Path) -> Option<RealPath> {
    let path = old.pattern.only_subject()?.strip_prefix('/')?;
    let (inside, outside) = (directory.join(path), Path::new("/").join(path));
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    (is_there(&inside) && !is_there(&outside)).then(|| RealPath::find(&inside))
}
