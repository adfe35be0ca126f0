//! Questions of tools and middleware that only tests have.

use std::collections::BTreeMap;

use prowess_permission::{Action, Kind, Question};

/// A question in words of its own.
pub(crate) fn own_question(title: &str) -> Question {
    let action = Action::Other { title: title.to_owned(), details: BTreeMap::new() };
    Question::new(Kind::TOOL, title).action(action)
}
