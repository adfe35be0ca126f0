//! Skills that an MCP server has but does not list.

use std::sync::Arc;

use prowess_catalog::overview::SkillMode;
use prowess_catalog::published::Published;
use prowess_catalog::{Root, SkillEntry};

use crate::error::SkillError;
use crate::operation::Io;
use crate::view::SkillView;

impl SkillView {
    /// Looks up a skill that no list has, on the server that its name begins with. The model chose the name that the server
    /// is asked for, so this passes the gate first.
    pub(crate) async fn look_up(&self, io: &Io, name: &str) -> Result<(Self, Arc<SkillEntry>), SkillError> {
        let catalog = self.visible().view.catalog();
        let catalog_name = name_in_catalog(name);
        let is_server = |label: &str| {
            let root = Root::server(label);
            catalog.roots().any(|other| **other == root)
        };
        let Some((server, _)) = name.split_once(':').filter(|(server, _)| is_server(server)) else {
            return Ok((self.clone(), self.visible_to_model(name)?));
        };
        if let Ok(entry) = self.visible_to_model(&catalog_name) {
            return Ok((self.clone(), entry));
        }
        // The server need not be asked about a skill that the model may not load.
        if self.engine().options().modes.of(&catalog_name) <= SkillMode::Manual {
            return Err(self.not_found(name));
        }
        self.pass_look_up_gate(io, server, name, &catalog_name).await?;
        if let Some(catalog) = io.look_up(name, catalog).await? {
            self.engine().take_catalog_of(self.visible(), &catalog, self.state());
            self.engine().discover(io).await?;
        }
        let now = self.engine().at_shared(self.state());
        let entry = now.visible_to_model(&catalog_name)?;
        Ok((now, entry))
    }
}

/// The name in the catalog of a skill that the model names by its address: `docs:skill://pdf/SKILL.md` is `docs:pdf`.
fn name_in_catalog(name: &str) -> String {
    match name.split_once(':') {
        Some((server, uri)) if uri.contains("://") => Published::name_of(server, uri),
        _ => name.to_owned(),
    }
}
