//! Shows the untrusted items of a project, and asks about them.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Context as _, Result};

use super::Item;
use super::items::{self, Purpose};
use super::status::{ItemStatus, ItemTrust, judge, list_untrusted};
use super::trust_file::{Record, TrustFile};
use crate::config::FILE_NAME;
use crate::confirm::{self, Confirmation};
use crate::project::Project;

/// Which items are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewScope {
    /// New and changed items.
    Open,
    /// Also refused items, because the user wants to decide again.
    Refused,
}

/// The items of a project, read once, so that trust is recorded for exactly what was shown.
pub(crate) struct TrustReview<'a> {
    pub(super) project: &'a Project,
    pub(super) items: BTreeMap<String, Item>,
    pub(super) statuses: BTreeMap<String, ItemTrust>,
    record: Option<Record>,
    scope: ReviewScope,
}

impl<'a> TrustReview<'a> {
    /// Reads all items of a project.
    pub(crate) fn of(project: &'a Project, scope: ReviewScope) -> Result<Self> {
        let record = TrustFile::of_user().map(|file| file.get(project.top())).transpose()?.flatten();
        let remembered = record.iter().flat_map(Record::paths).collect();
        let items = items::find_items(project, Purpose::Show, &remembered);
        let statuses = judge(&items, record.as_ref());
        Ok(Self { project, items, statuses, record, scope })
    }

    /// Whether there is nothing to trust.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether all items are trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        self.statuses.values().all(|item| item.status == ItemStatus::Trusted)
    }

    /// Whether there is something to ask about.
    pub(crate) fn has_questions(&self) -> bool {
        self.asked().next().is_some()
    }

    /// How many items are trusted already.
    pub(crate) fn trusted(&self) -> usize {
        self.statuses.values().filter(|item| item.status == ItemStatus::Trusted).count()
    }

    /// Whether no item has an earlier decision that stays.
    pub(super) fn is_first(&self) -> bool {
        let is_settled = |item: &ItemTrust| self.is_settled(&item.status);
        !self.statuses.values().any(is_settled)
    }

    /// Whether the decision about an item stays: it is trusted, or it was refused and is not asked about.
    pub(super) fn is_settled(&self, status: &ItemStatus) -> bool {
        match status {
            ItemStatus::Trusted => true,
            ItemStatus::Refused => self.scope == ReviewScope::Open,
            _ => false,
        }
    }

    /// The items that cannot be trusted, and why. Includes items that link to them.
    pub(crate) fn unfit(&self) -> Option<String> {
        let mut record = self.record.clone().unwrap_or_else(|| Record::new(""));
        self.asked().for_each(|(path, digest)| record.trust(path, digest));
        let unfit = list_untrusted(&judge(&self.items, Some(&record)));
        (!unfit.is_empty()).then_some(unfit)
    }

    /// The paths and digests of the items to ask about.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.statuses.iter().filter_map(|(path, item)| {
            let is_asked = item.status.is_open()
                || (self.scope == ReviewScope::Refused && item.status == ItemStatus::Refused);
            let digest = self.items.get(path)?.digest.as_ref().ok()?;
            is_asked.then_some((path.as_str(), digest.as_str()))
        })
    }

    /// Records that the items are trusted as they were read.
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

    /// The configuration as it was read. Invalid text cannot be used and restricts nothing.
    fn configuration_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.project.configuration().ok()??.bytes).ok()
    }

    /// Records that the items are refused as they were read, so that nobody is asked again.
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

/// Asks on the error stream whether to trust the items of the summary, and records the reply.
pub(crate) fn ask_to_trust(review: &TrustReview<'_>, replies: &mut impl BufRead) -> Result<bool> {
    let reply = confirm::ask(&["", &review.question()], replies)?;
    match reply {
        Confirmation::Yes => review.remember()?,
        Confirmation::No => review.refuse()?,
        // Without a reply nothing is recorded.
        Confirmation::NoReply => {}
    }
    Ok(reply == Confirmation::Yes)
}
