//! The core of an agent knows no middleware: a middleware that you write can do all that the shipped ones can.

use std::path::{Path, PathBuf};

/// Files that put middleware together, and may name them.
const ABOVE: [&str; 2] = ["deep_agent.rs", "lib.rs"];
/// The one module of middleware that the core may name: the traits.
const CONTRACT: &str = "contract";

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// What the code names in the module of middleware, apart from the contract.
fn named_middleware(code: &str) -> Vec<String> {
    let lines = code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut named: Vec<String> = code
        .match_indices("crate::middleware")
        .map(|(at, path)| code[at + path.len()..].trim_start().to_owned())
        .filter(|rest| !rest.strip_prefix("::").is_some_and(is_contract))
        .collect();
    // A group such as `use crate::{agent, middleware::Todos}` would hide the path.
    named.extend(code.match_indices("crate::{").map(|(at, _)| code[at..].to_owned()));
    named
}

fn is_contract(path: &str) -> bool {
    path.strip_prefix(CONTRACT).is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn the_core_names_no_middleware() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let shipped = source.join("middleware");
    let contract = shipped.join(CONTRACT);
    let is_core = |file: &PathBuf| {
        let is_above = ABOVE.iter().any(|above| *file == source.join(above));
        !is_above && (!file.starts_with(&shipped) || file.starts_with(&contract))
    };
    let core: Vec<PathBuf> = all.into_iter().filter(is_core).collect();
    for known in ["agent/turn.rs", "tool/permission.rs", "middleware/contract/action.rs"] {
        assert!(core.iter().any(|file| file.ends_with(known)), "{known} is no longer there: {core:?}");
    }
    for file in core {
        let code = std::fs::read_to_string(&file).unwrap();
        assert_eq!(named_middleware(&code), [""; 0], "{}", file.display());
    }
}

#[test]
fn a_name_of_a_middleware_is_found() {
    for names in [
        "use crate::middleware::Todos;",
        "use crate::middleware::{Middleware, Todos};",
        "use crate::middleware::{\n    Middleware,\n    Todos,\n};",
        "use crate::middleware;",
        "use crate::{agent, middleware::Todos};",
        "fn f() { crate::middleware::skills::at(context); }",
        "use crate::middleware::contractors::Todos;",
    ] {
        assert_eq!(named_middleware(names).len(), 1, "{names}");
    }
    for allowed in [
        "use crate::middleware::contract::{Middleware, MiddlewareContext};",
        "/// See [`crate::middleware::Todos`].",
        "for middleware in self.middleware {}",
    ] {
        assert_eq!(named_middleware(allowed), [""; 0], "{allowed}");
    }
}
