//! The directories that the plugin manifests of Claude Code name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::join;

/// The list of a source's plugins.
pub(super) const MARKETPLACE: &str = ".claude-plugin/marketplace.json";
/// The manifest of a source that is one plugin.
pub(super) const PLUGIN: &str = ".claude-plugin/plugin.json";

/// The most directories that plugin manifests name. Each is looked at with all skills, so a longer list would take long.
const MAX_NAMED: usize = 1_000;

/// What plugin manifests name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Directories that have skills as children.
    pub(super) containers: Vec<String>,
    /// The plugins by the directory of a skill.
    pub(super) plugins: BTreeMap<String, String>,
}

/// What the two manifests of a source name. Paths that are not below `root` are ignored.
pub(super) fn named(root: &str, market: Option<&Value>, plugin: Option<&Value>) -> Named {
    let mut named = Named::default();
    if let Some(market) = market {
        named.add_market(root, market);
    }
    if let Some(plugin) = plugin {
        named.add(root, root, plugin);
    }
    named
}

impl Named {
    fn add_market(&mut self, root: &str, market: &Value) {
        let plugin_root = match market.pointer("/metadata/pluginRoot") {
            None => Some(root.to_owned()),
            Some(path) => path.as_str().and_then(|path| inside(root, root, path)),
        };
        let Some(plugin_root) = plugin_root else { return };
        let plugins = market.get("plugins").and_then(Value::as_array);
        for plugin in plugins.into_iter().flatten() {
            let base = match plugin.get("source") {
                None => Some(plugin_root.clone()),
                // Other sources are objects: they are elsewhere.
                Some(path) => path.as_str().and_then(|path| inside(root, &plugin_root, path)),
            };
            if let Some(base) = base {
                self.add(root, &base, plugin);
            }
        }
    }

    /// Adds the skills of a plugin in the directory `base`.
    fn add(&mut self, root: &str, base: &str, plugin: &Value) {
        let name = plugin.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let skills = match plugin.get("skills") {
            Some(Value::Array(skills)) => skills.as_slice(),
            Some(one @ Value::String(_)) => std::slice::from_ref(one),
            _ => &[],
        };
        for path in skills.iter().filter_map(Value::as_str) {
            if self.containers.len() >= MAX_NAMED {
                return;
            }
            let Some(directory) = inside(root, base, path) else { continue };
            if directory != root {
                let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
                self.containers.push(parent.to_owned());
            }
            if let Some(name) = name {
                self.plugins.insert(directory.clone(), name.to_owned());
            }
            // The path may also name a directory of skills.
            self.containers.push(directory);
        }
        if self.containers.len() < MAX_NAMED {
            self.containers.push(join(base, "skills"));
        }
    }
}

/// The directory `path`, which begins with `./`, from `base`. `None` if it is not below `root`.
fn inside(root: &str, base: &str, path: &str) -> Option<String> {
    let path = path.strip_prefix("./")?;
    let mut names: Vec<&str> = base.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    let directory = names.join("/");
    (directory == root || super::below(&directory, root).is_some()).then_some(directory)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_market_names_the_directories_of_its_plugins() {
        let market = json!({"metadata": {"pluginRoot": "./plugins"}, "plugins": [
            {"name": "sea", "source": "./sea", "skills": ["./tide", "./deep/wave", "tide", "../../x", 7]},
            {"name": "far", "source": {"source": "github", "repo": "o/r"}},
            {"name": "out", "source": "./../../out"},
            {"name": "bare", "source": "bare"},
            {"name": "here"},
            7
        ]});
        let found = named("", Some(&market), None);
        assert_eq!(
            found.containers,
            [
                "plugins/sea",
                "plugins/sea/tide",
                "plugins/sea/deep",
                "plugins/sea/deep/wave",
                "plugins/sea/skills",
                "plugins/skills",
                "plugins/skills"
            ]
        );
        assert_eq!(found.plugins.get("plugins/sea/tide").map(String::as_str), Some("sea"));
        assert_eq!(found.plugins.len(), 2);
    }

    #[test]
    fn paths_that_leave_the_subpath_are_ignored() {
        let plugin = json!({"name": "p", "skills": ["./../other/tide", "./a/../tide", "./"]});
        let found = named("sub", None, Some(&plugin));
        assert_eq!(found.containers, ["sub", "sub/tide", "sub", "sub/skills"]);
        for bad in
            [json!([]), json!({"plugins": 7}), json!({"metadata": {"pluginRoot": "/etc"}, "plugins": [{}]})]
        {
            assert_eq!(named("", Some(&bad), None), Named::default());
        }
    }
}
