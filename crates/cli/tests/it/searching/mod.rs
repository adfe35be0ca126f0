//! Search among many skills: the stored index, and search by meaning with an embedding model on this machine.

mod embedding_server;
mod hostile_vectors;
mod meaning;
mod stored_index;

use serde_json::Value;

use crate::world::World;

/// The names that a search finds, best first.
fn found(world: &World, words: &str) -> Vec<String> {
    names(&world.json(&["search", words, "--json"]))
}

fn names(hits: &Value) -> Vec<String> {
    hits.as_array().unwrap().iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
}
