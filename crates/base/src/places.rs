//! The names of the places that a model sees.

/// The working directory of the person.
pub const PROJECT: &str = "/project";
/// The skills, each in a directory of its name.
pub const SKILLS: &str = "/skills";
/// The workspace, with `out/`, `work/` and `runs/`.
pub const WORK: &str = "/work";
/// The place of the workspace in earlier versions. Stored conversations name it.
pub const EARLIER: &str = "/ws";
/// The memory files outside of the project, each below its real path. Only file tools open them.
pub const MEMORY: &str = "/memory";

/// The rest of a path below a place; `None` if the path lies elsewhere. A place ends at the end of its name.
///
/// ```
/// use prowess_base::places::{PROJECT, below};
///
/// assert_eq!(below("/project/src/a.rs", PROJECT), Some("src/a.rs"));
/// assert_eq!(below("/project", PROJECT), Some(""));
/// assert_eq!(below("/projects/a.rs", PROJECT), None);
/// ```
pub fn below<'a>(path: &'a str, place: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(place)?;
    (rest.is_empty() || rest.starts_with('/') || place.ends_with('/')).then(|| rest.trim_matches('/'))
}
