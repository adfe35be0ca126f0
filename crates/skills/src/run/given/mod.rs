//! What a run is given of the project, read-only at the same place.

mod disk;
mod mention;
#[cfg(test)]
mod mention_tests;
mod pattern;
