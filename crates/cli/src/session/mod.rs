//! A session driven by hand: lines in, and out what a model would read.

mod conversation;
mod front;
mod input;
mod line;
mod question;
mod saved;
mod show;

use anyhow::Result;
use prowess_skills::SkillSession;

use crate::options::Places;
use crate::terminal::count;

pub(crate) use front::Front;
pub(crate) use input::Input;
pub(crate) use saved::StateFile;
pub(crate) use show::Show;

use conversation::{Conversation, Said};
use input::{Line, MAX_LINE_BYTES};
use line::Command;

/// Takes lines until they end or one says `quit`. Says whether the last answer was an error.
pub(crate) async fn drive(
    session: SkillSession,
    places: &Places,
    show: Show,
    state: Option<&StateFile>,
    front: &mut Front<'_>,
) -> Result<bool> {
    front.greet(&greeting(&session))?;
    let mut conversation = Conversation::new(session, places);
    let mut failed = false;
    while let Some(line) = front.next_line()? {
        let (line, parsed) = match line {
            Line::Text(line) => {
                let parsed = line::parse(&line);
                (line, parsed)
            }
            Line::TooLong => (String::new(), Err(too_long())),
        };
        let mut said = match parsed {
            Ok(None) => continue,
            Ok(Some(Command::Quit)) => break,
            Ok(Some(command)) => front.attend(conversation.obey(command)).await?,
            Err(problem) => Said::wrong(problem),
        };
        let context =
            if said.has_changed() { conversation.context(show, &mut said.deltas).await } else { Vec::new() };
        if let Some(state) = state.filter(|_| said.has_changed()) {
            state.save(&conversation.session().save())?;
        }
        failed = said.is_error;
        front.tell(&line, &said, &context, &conversation)?;
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
    format!("a line has more than {MAX_LINE_BYTES} bytes, and was not read; give a shorter one")
}
