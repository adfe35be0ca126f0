//! Whether a model finds every skill: a search for each name, with the tool that a model calls.

use std::path::Path;

use anyhow::Result;
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::{Capabilities, SessionOptions, SkillSession};
use serde_json::{Value, json};

/// How many skills are the first hit of a search for their names, as JSON: `{"skills": 10, "found": 10}`.
pub(crate) fn reached(root: &Path) -> Result<Value> {
    let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    let names: Vec<String> = catalog.entries().iter().map(|entry| entry.skill.name.to_string()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let found = runtime.block_on(async {
        let mut options = SessionOptions::default();
        options.capabilities = Capabilities::all();
        let session = SkillSession::builder(catalog).options(options).build().await;
        let mut found = 0;
        for name in &names {
            let answer = session.call("search_skills", json!({"query": name, "limit": 1})).await;
            let data = answer.data.unwrap_or_default();
            found += usize::from(!answer.is_error && data["skills"] == json!([name]));
        }
        found
    });
    Ok(json!({"skills": names.len(), "found": found}))
}
