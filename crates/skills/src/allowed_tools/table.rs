//! The table of listed tools: which tools of prowess each name in `allowed-tools` stands for.

/// A row of [`LISTED_TOOLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedTool {
    /// The name that Claude Code uses.
    pub name: &'static str,
    /// Other names for the same: of opencode, and of other versions.
    pub other_names: &'static [&'static str],
    /// The tools of prowess that it stands for. A tool's own name stands for this tool alone.
    pub tools: &'static [&'static str],
    /// Another row that it includes.
    pub includes: Option<&'static str>,
    /// What a scope in parentheses is compared with.
    pub scope: ScopeKind,
}

/// What the scope of a listed tool, such as `git:*` in `Bash(git:*)`, is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeKind {
    /// A command line.
    Command,
    /// The path of a file.
    Path,
    /// The host of an address.
    Host,
    /// The name of a sub-agent or of a skill.
    Name,
}

/// The tools of prowess that the names in `allowed-tools` stand for. The page `docs/sessions.md` has the same table.
///
/// `WebFetch` has no tool here: it stands for the hosts that the skill's commands reach.
pub const LISTED_TOOLS: [ListedTool; 11] = [
    row(
        "Bash",
        &["bash", "shell"],
        &["skill_run", "skill_exec", "skill_write_stdin", "execute", "bash", "shell"],
        ScopeKind::Command,
    ),
    row("Read", &["read", "NotebookRead"], &["read_file"], ScopeKind::Path),
    ListedTool {
        includes: Some("Edit"),
        ..row("Write", &["write"], &["write_file", "copy_file"], ScopeKind::Path)
    },
    row(
        "Edit",
        &["edit", "MultiEdit", "multiedit", "NotebookEdit", "patch", "apply_patch"],
        &["edit_file"],
        ScopeKind::Path,
    ),
    row("Glob", &[], &["glob"], ScopeKind::Path),
    row("Grep", &[], &["grep"], ScopeKind::Path),
    row("LS", &["list"], &["ls"], ScopeKind::Path),
    row("WebFetch", &["webfetch"], &[], ScopeKind::Host),
    row("Task", &["Agent"], &["task"], ScopeKind::Name),
    row(
        "Skill",
        &["skill"],
        &["load_skill", "skill_load", "skill_load_with_args", "skill", "skill_with_args"],
        ScopeKind::Name,
    ),
    row("TodoWrite", &["todowrite"], &["write_todos"], ScopeKind::Name),
];

const fn row(
    name: &'static str,
    other_names: &'static [&'static str],
    tools: &'static [&'static str],
    scope: ScopeKind,
) -> ListedTool {
    ListedTool { name, other_names, tools, includes: None, scope }
}

/// The row with this name.
pub(super) fn row_named(name: &str) -> Option<&'static ListedTool> {
    LISTED_TOOLS.iter().find(|row| row.name == name || row.other_names.contains(&name))
}

/// The row with this name, or with a tool of this name.
pub(super) fn row_of(name: &str) -> Option<&'static ListedTool> {
    row_named(name).or_else(|| LISTED_TOOLS.iter().find(|row| row.tools.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_same_table() {
        let page = include_str!("../../../../docs/sessions.md");
        let table = page.split("| in `allowed-tools` |").nth(1).expect("the table");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let quoted =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let documented: Vec<(Vec<String>, Vec<String>)> = rows
            .map(|line| {
                let cells: Vec<&str> = line.split('|').collect();
                (quoted(cells[1]), quoted(cells[2]))
            })
            .collect();
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let known: Vec<_> = LISTED_TOOLS
            .iter()
            .map(|row| {
                let included = row.includes.and_then(row_of).map_or(&[][..], |row| row.tools);
                let names = std::iter::once(row.name).chain(row.other_names.iter().copied());
                (owned(names.collect()), owned(row.tools.iter().chain(included).copied().collect()))
            })
            .collect();
        assert_eq!(documented, known);
    }
}
