//! Questions of tools and parts that only tests have.

use std::collections::BTreeMap;

use prowess_permission::{Deed, Kind, Question};

/// A question in words of its own.
pub(crate) fn own_question(title: &str) -> Question {
    let deed = Deed::Other { title: title.to_owned(), details: BTreeMap::new() };
    Question::new(Kind::TOOL, title).to(deed)
}
