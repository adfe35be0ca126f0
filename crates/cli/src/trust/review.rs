//! Asking about what of a project is not trusted yet.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Context as _, Result};

use super::items::{self, Purpose};
use super::status::{ItemStatus, ItemTrust, judge, listed};
use super::trust_file::{Record, TrustFile};
use super::{Item, summary};
use crate::config::FILE_NAME;
use crate::confirm::{self, Confirmation};
use crate::project::Project;

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewScope {
    /// What is new or has changed.
    Open,
    /// Also what was refused: the user wants to decide again.
    Refused,
}

/// What a project brings, looked at once: what is shown is what is remembered.
pub(crate) struct TrustReview<'a> {
    pub(super) project: &'a Project,
    pub(super) items: BTreeMap<String, Item>,
    pub(super) judged: BTreeMap<String, ItemTrust>,
    record: Option<Record>,
    scope: ReviewScope,
}

impl<'a> TrustReview<'a> {
    /// Looks at all that a project brings.
    pub(crate) fn of(project: &'a Project, scope: ReviewScope) -> Result<Self> {
        let record = TrustFile::of_user().map(|file| file.get(project.top())).transpose()?.flatten();
        let remembered = record.iter().flat_map(Record::paths).collect();
        let items = items::find_items(project, Purpose::Show, &remembered);
        let judged = judge(&items, record.as_ref());
        Ok(Self { project, items, judged, record, scope })
    }

    /// Whether there is nothing that would have to be trusted.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether all of it is trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        self.judged.values().all(|item| item.status == ItemStatus::Trusted)
    }

    /// Whether there is something to ask about.
    pub(crate) fn has_questions(&self) -> bool {
        self.asked().next().is_some()
    }

    /// How many items are trusted already.
    pub(crate) fn trusted(&self) -> usize {
        self.judged.values().filter(|item| item.status == ItemStatus::Trusted).count()
    }

    /// Whether nothing was said of any of it before that stays as it is.
    pub(super) fn is_first(&self) -> bool {
        let is_settled = |item: &ItemTrust| self.is_settled(&item.status);
        !self.judged.values().any(is_settled)
    }

    /// Whether an item is left as it is: it is trusted, or was refused and is not asked about.
    pub(super) fn is_settled(&self, status: &ItemStatus) -> bool {
        match status {
            ItemStatus::Trusted => true,
            ItemStatus::Refused => self.scope == ReviewScope::Open,
            _ => false,
        }
    }

    /// What cannot be trusted, whatever anybody says, and why: also what leads to such an item.
    pub(crate) fn unfit(&self) -> Option<String> {
        let mut record = self.record.clone().unwrap_or_else(|| Record::new(""));
        self.asked().for_each(|(path, digest)| record.trust(path, digest));
        let unfit = listed(&judge(&self.items, Some(&record)));
        (!unfit.is_empty()).then_some(unfit)
    }

    /// What is asked about: the paths and the digests.
    fn asked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.judged.iter().filter_map(|(path, item)| {
            let is_asked = item.status.is_open()
                || (self.scope == ReviewScope::Refused && item.status == ItemStatus::Refused);
            let digest = self.items.get(path)?.digest.as_ref().ok()?;
            is_asked.then_some((path.as_str(), digest.as_str()))
        })
    }

    /// Remembers that what was asked about is trusted as it was when this looked at it.
    pub(crate) fn remember(&self) -> Result<()> {
        self.change(|record, path, digest| {
            record.trust(path, digest);
            if path == FILE_NAME
                && let Some(text) = self.configuration_text()
            {
                record.keep_configuration(text);
            }
        })
    }

    /// The very text that was looked at. What is no text cannot be used, and forbids nothing.
    fn configuration_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.project.configuration().ok()??.bytes).ok()
    }

    /// Remembers that it is not to be trusted as it was when this looked at it, so that nobody is asked again.
    fn refuse(&self) -> Result<()> {
        self.change(Record::refuse)
    }

    fn change(&self, change: impl Fn(&mut Record, &str, &str)) -> Result<()> {
        if !self.has_questions() {
            return Ok(());
        }
        let file = TrustFile::of_user().context("there is no home directory to save this in: set HOME")?;
        let top = self.project.top().to_str();
        let top =
            top.with_context(|| format!("the path {} is not valid text", self.project.top().display()))?;
        file.change(top, |record| self.asked().for_each(|(path, digest)| change(record, path, digest)))
    }
}

/// Asks on the error stream whether to trust what the summary showed, and remembers the answer.
pub(crate) fn ask_to_trust(review: &TrustReview<'_>, answers: &mut impl BufRead) -> Result<bool> {
    let question = if review.is_first() { summary::QUESTION } else { summary::QUESTION_OF_PART };
    let answer = confirm::ask(&["", question], answers)?;
    match answer {
        Confirmation::Yes => review.remember()?,
        Confirmation::No => review.refuse()?,
        // Who types nothing at all has not answered.
        Confirmation::NoReply => {}
    }
    Ok(answer == Confirmation::Yes)
}
