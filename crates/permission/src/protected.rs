//! Protected files: files that decide what agents and programs do. A skill's `allowed-tools` never approve a change of them,
//! and no run writes them into a project.

use std::sync::LazyLock;

use crate::secrets::{SECRET_FILES, secret_files};
use crate::{Decision, Kind, Policy, Question, Rule, RuleSource};

/// Patterns of the real paths of protected files. They ignore letter case.
pub const PROTECTED_FILES: &[&str] = &[
    // Instructions, settings and skills of agents.
    "*/agents.md",
    "*/agents.override.md",
    "*/claude.md",
    "*/claude.local.md",
    "*/gemini.md",
    "*/prowess.toml",
    "*/.prowess",
    "*/.prowess/*",
    "*/.claude",
    "*/.claude/*",
    "*/.agents",
    "*/.agents/*",
    "*/.opencode",
    "*/.opencode/*",
    "*/opencode.json",
    "*/opencode.jsonc",
    "*/.codex",
    "*/.codex/*",
    "*/.gemini",
    "*/.gemini/*",
    "*/.cursor",
    "*/.cursor/*",
    "*/.cursorrules",
    "*/.windsurf",
    "*/.windsurf/*",
    "*/.mcp.json",
    "*/skill.md",
    // Version control and its hooks.
    "*/.git",
    "*/.git/*",
    "*/.gitconfig",
    "*/.gitmodules",
    "*/.gitattributes",
    "*/.hg",
    "*/.hg/*",
    "*/.svn",
    "*/.svn/*",
    "*/.jj",
    "*/.jj/*",
    "*/.husky",
    "*/.husky/*",
    "*/head",
    "*/.pre-commit-config.yaml",
    "*/lefthook.y*ml",
    // Tasks of editors and of services that build.
    "*/.vscode",
    "*/.vscode/*",
    "*/*.code-workspace",
    "*/.idea",
    "*/.idea/*",
    "*/*.iml",
    "*/.fleet",
    "*/.fleet/*",
    "*/.vs",
    "*/.vs/*",
    "*/*.sublime-project",
    "*/.zed",
    "*/.zed/*",
    "*/.devcontainer",
    "*/.devcontainer/*",
    "*/.devcontainer.json",
    "*/.exrc",
    "*/.lvimrc",
    "*/.nvim.lua",
    "*/.nvimrc",
    "*/.vimrc",
    "*/.dir-locals.el",
    "*/.dir-locals-2.el",
    "*/.direnv",
    "*/.direnv/*",
    "*/.github/*",
    "*/.gitlab-ci.yml",
    "*/.circleci/*",
    // What shells and tools read when they start.
    "*/.bashrc",
    "*/.bash_profile",
    "*/.bash_login",
    "*/.bash_logout",
    "*/.bash_aliases",
    "*/.profile",
    "*/.zshrc",
    "*/.zshenv",
    "*/.zprofile",
    "*/.zlogin",
    "*/.config/*",
    "*/.local/bin/*",
    "*/.cargo/config*",
    "*/.mise.toml",
    "*/mise.toml",
    "*/.tool-versions",
    "*/sitecustomize.py",
    "*/usercustomize.py",
];

/// Reading and writing are allowed, except for files about which a person must be asked.
static PROTECTED: LazyLock<Policy> = LazyLock::new(|| {
    let everything = [Kind::READ, Kind::WRITE].map(|kind| Rule::new(kind.as_str(), "*", Decision::Allow));
    let writes = SECRET_FILES.iter().chain(PROTECTED_FILES);
    let guards = secret_files().chain(writes.map(|pattern| Rule::guard(&Kind::WRITE, pattern)));
    Policy::empty().rules(RuleSource::Defaults, everything.into_iter().chain(guards))
});

/// Whether a question is about reading a secret file, or about changing a secret or protected file.
///
/// ```
/// use prowess_permission::protected::is_protected;
/// use prowess_permission::{Kind, Question};
///
/// assert!(is_protected(&Question::new(Kind::WRITE, "/site/.git/config")));
/// assert!(!is_protected(&Question::new(Kind::WRITE, "/site/notes.md")));
/// ```
#[must_use]
pub fn is_protected(question: &Question) -> bool {
    question.kind.has_path_subjects() && PROTECTED.evaluate(question).decision != Decision::Allow
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealPath;

    #[test]
    fn files_that_decide_what_runs_are_protected() {
        for path in [
            "/p/AGENTS.md",
            "/p/docs/agents.md",
            "/p/.git/hooks/pre-commit",
            "/p/.GIT/config",
            "/p/.git",
            "/p/.prowess/skills/x/SKILL.md",
            "/p/prowess.toml",
            "/p/.claude/settings.json",
            "/p/.agents/skills/x/run.sh",
            "/p/.vscode/tasks.json",
            "/p/.github/workflows/ci.yml",
            "/p/.windsurf/rules/a.md",
            "/p/.dir-locals-2.el",
            "/p/.fleet/run.json",
            "/p/.vs/tasks.vs.json",
            "/p/x.sublime-project",
            "/p/.lvimrc",
            "/p/.svn/hooks/pre-commit",
            "/home/ada/.bashrc",
            "/p/.env",
            "/p/tls/server.key",
            "/.git/config",
        ] {
            assert!(is_protected(&Question::new(Kind::WRITE, path)), "{path}");
        }
        for path in ["/p/notes.md", "/p/src/git/mod.rs", "/p/my-agents.md", "/p/.gitignore"] {
            assert!(!is_protected(&Question::new(Kind::WRITE, path)), "{path}");
        }
        assert!(is_protected(&Question::new(Kind::READ, "/p/.env")));
        assert!(!is_protected(&Question::new(Kind::READ, "/p/AGENTS.md")));
        assert!(!is_protected(&Question::new(Kind::RUN, "cat /p/.env")), "a command is no path");
    }

    #[test]
    fn a_link_does_not_lead_around_it() {
        let real = std::path::Path::new("/p/.git/config");
        let link = std::path::Path::new("/p/notes.md");
        for (real, spelled) in [(real, link), (link, real)] {
            let file = RealPath::known(real, spelled, false);
            assert!(is_protected(&Question::about_file(Kind::WRITE, file)), "{spelled:?}");
        }
    }
}
