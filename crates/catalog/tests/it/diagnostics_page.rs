//! The documents say what the code says.

use std::fmt::Write as _;
use std::path::Path;

use prowess_catalog::diagnostic::CodeClass;
use prowess_catalog::{Code, Severity};

/// `docs/diagnostics.md` as the code would have it; `PROWESS_WRITE_DOCS=1` writes it.
#[test]
fn the_page_of_diagnostics_lists_every_code() {
    let mut page = String::from(
        "# Diagnostics\n\n\
         A diagnostic is one finding about a skill, or about a root: a place in which prowess looks for skills. Each diagnostic has a\n\
         stable code.\n\n\
         The column *loading* says what prowess does when it prepares skills for an agent:\n\n\
         - `skipped`: prowess leaves out the skill or the directory.\n\
         - `warning`: the agent can use the skill, but perhaps not as its author meant it.\n\
         - `info`: this is for information only.\n\n\
         The column shows the usual case. A single finding can be more severe. For example, `unreadable` is usually a warning, but\n\
         prowess skips a skill whose SKILL.md it cannot read.\n\n\
         The column *check* says `error` if the finding makes a skill invalid for `prowess check` with the profile `spec`, which is the\n\
         default. If the cell is empty, the finding is a warning or information, and the skill is valid.\n",
    );
    for (class, heading, text) in [
        (CodeClass::Breach, "Breaches of the specification", "The open specification forbids these."),
        (
            CodeClass::Advice,
            "Advice",
            "These are allowed, but they are likely mistakes, or other clients refuse them.",
        ),
        (
            CodeClass::Discovery,
            "Discovery",
            "prowess found these while it looked for skills. `prowess list --diagnostics` shows them.",
        ),
    ] {
        write!(page, "\n## {heading}\n\n{text}\n\n| code | loading | check | meaning |\n|---|---|---|---|\n")
            .unwrap();
        for code in Code::ALL.iter().filter(|code| code.class() == class) {
            let loading = match code.severity() {
                Severity::Error => "skipped",
                Severity::Warning => "warning",
                Severity::Info => "info",
            };
            let check = if code.fails_strict() { "error" } else { "" };
            writeln!(page, "| `{code}` | {loading} | {check} | {} |", code.explanation()).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    if std::env::var_os("PROWESS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/diagnostics.md is out of date: run this test with PROWESS_WRITE_DOCS=1");
}
