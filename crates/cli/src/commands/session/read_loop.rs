//! The loop of `prowess session`: reads lines and carries them out.

use anyhow::Result;
use prowess_skills::SkillSession;

use crate::options::RootArgs;
use crate::terminal::count;

use super::command::{self, Command};
use super::console::Console;
use super::input::{InputLine, MAX_LINE_BYTES};
use super::manual_session::{CommandResult, ManualSession};
use super::output::Show;
use super::state_file::StateFile;

/// Carries out lines until they end or one says `quit`. Returns whether the last one failed.
pub(crate) async fn run_lines(
    session: SkillSession,
    root_args: &RootArgs,
    show: Show,
    state: Option<&StateFile>,
    console: &mut Console<'_>,
) -> Result<bool> {
    console.greet(&greeting(&session))?;
    let mut manual_session = ManualSession::new(session, root_args);
    let mut failed = false;
    while let Some(line) = console.next_line()? {
        let (line, parsed) = match line {
            InputLine::Text(line) => {
                let parsed = command::parse(&line);
                (line, parsed)
            }
            InputLine::TooLong => (String::new(), Err(too_long())),
        };
        let mut said = match parsed {
            Ok(None) => continue,
            Ok(Some(Command::Quit)) => break,
            Ok(Some(command)) => console.attend(manual_session.execute(command)).await?,
            Err(problem) => CommandResult::wrong(problem),
        };
        let context = if said.has_changed() {
            manual_session.context(show, &mut said.deltas).await
        } else {
            Vec::new()
        };
        if let Some(state) = state.filter(|_| said.has_changed()) {
            state.save(&manual_session.session().save())?;
        }
        failed = said.is_error;
        console.tell(&line, &said, &context, &manual_session)?;
    }
    Ok(failed)
}

fn greeting(session: &SkillSession) -> String {
    let view = session.engine().catalog_view();
    let known = view.entries().len();
    let denied = match view.catalog().entries().len() - known {
        0 => String::new(),
        denied => format!(" ({denied} more denied by rules)"),
    };
    let skills = count(known, "skill") + &denied;
    let loaded = match session.state().loaded().len() {
        0 => String::new(),
        loaded => format!(", {loaded} loaded"),
    };
    format!("{skills}{loaded}; `help` shows the commands, `quit` ends")
}

fn too_long() -> String {
    format!("a line is longer than {MAX_LINE_BYTES} bytes and was not read; give a shorter one")
}
