//! Removes the containers of killed processes.
//!
//! These containers have ended, because nobody holds their lifelines. Only a record in the engine and a directory are left.

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::owner::Owner;
use super::profile::LABEL;
use super::{directory, instance};

/// Removes the containers and directories of dead processes. If a removal fails, the next sweep tries again.
pub(super) async fn sweep(docker: &Docker, own: &Owner) {
    directory::sweep(&std::env::temp_dir(), own);
    let filters = HashMap::from([("label", vec![LABEL])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let Ok(all) = docker.list_containers(Some(options)).await else { return };
    for one in all {
        let owner =
            one.labels.as_ref().and_then(|labels| labels.get(LABEL)).and_then(|label| Owner::parse(label));
        if let (Some(owner), Some(id)) = (owner, one.id)
            && own.knows_dead(&owner)
        {
            let _ = instance::try_remove(docker, &id).await;
        }
    }
}
