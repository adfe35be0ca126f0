//! The arguments of the file tools.
//!
//! Models read the descriptions in every request. An argument with a clear name needs none.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{DEFAULT_EXECUTE, DEFAULT_LINES};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    #[schemars(description = "Absolute path")]
    pub(super) path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    pub(super) file_path: String,
    #[schemars(description = "First line, from 0")]
    #[serde(default)]
    pub(super) offset: usize,
    #[schemars(description = "Lines to show")]
    #[serde(default = "lines")]
    pub(super) limit: usize,
    #[schemars(description = "First piece of a long line, from 0")]
    #[serde(default)]
    pub(super) piece: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    pub(super) file_path: String,
    pub(super) content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    pub(super) file_path: String,
    #[schemars(description = "Exactly as in the file")]
    pub(super) old_string: String,
    pub(super) new_string: String,
    #[serde(default)]
    pub(super) replace_all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyFile {
    pub(super) from: String,
    #[schemars(description = "New path, or a directory ending in /")]
    pub(super) to: String,
    #[schemars(description = "Replace a file that exists")]
    #[serde(default)]
    pub(super) replace: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    #[schemars(description = "Such as **/*.md")]
    pub(super) pattern: String,
    #[schemars(description = "Directory to look in")]
    #[serde(default = "root")]
    pub(super) path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    pub(super) pattern: String,
    #[schemars(description = "File or directory to look in")]
    #[serde(default = "root")]
    pub(super) path: String,
    #[schemars(description = "Only search files that match, such as **/*.rs")]
    #[serde(default)]
    pub(super) glob: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    pub(super) command: String,
    #[schemars(description = "Seconds")]
    #[serde(default = "seconds")]
    pub(super) timeout: u64,
}

fn lines() -> usize {
    DEFAULT_LINES
}

fn root() -> String {
    "/".to_owned()
}

fn seconds() -> u64 {
    DEFAULT_EXECUTE.as_secs()
}

#[cfg(test)]
mod tests {
    use prowess_skills::parameters;
    use serde_json::{Value, json};

    use super::*;

    fn default<A: JsonSchema + 'static>(name: &str) -> Value {
        parameters::schema::<A>()["properties"][name]["default"].clone()
    }

    #[test]
    fn the_defaults_of_schemas_are_those_of_the_code() {
        assert_eq!(default::<Read>("limit"), DEFAULT_LINES);
        assert_eq!(default::<Execute>("timeout"), DEFAULT_EXECUTE.as_secs());
        assert_eq!((default::<Glob>("path"), default::<Grep>("path")), (json!("/"), json!("/")));
        let least: Read = parameters::parse(json!({"file_path": "/a"})).unwrap();
        assert_eq!(default::<Read>("offset"), least.offset);
        assert_eq!(default::<Read>("piece"), least.piece);
        let least: EditFile =
            parameters::parse(json!({"file_path": "/a", "old_string": "a", "new_string": "b"})).unwrap();
        assert_eq!(default::<EditFile>("replace_all"), least.replace_all);
        let least: CopyFile = parameters::parse(json!({"from": "/a", "to": "/b"})).unwrap();
        assert_eq!(default::<CopyFile>("replace"), least.replace);
    }
}
