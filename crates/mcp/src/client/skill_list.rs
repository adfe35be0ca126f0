//! Lists the skills that a server offers.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::entry;
use super::error::ServerError;
use super::pages::Pages;
use super::server::Server;
use super::short_line::short_line;
use prowess_catalog::published::Offer;

const LIST: &str = "skills/list";
const GET: &str = "skills/get";
/// The most skills of a server, by default.
pub(super) const DEFAULT_SKILLS: usize = 1000;
/// How many unusable entries are reported. A server may list any number of them.
const MAX_REFUSED: usize = 100;

/// The skills that a server lists. It may serve more.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SkillList {
    /// The skills that can be used, in the server's order.
    pub offers: Vec<Offer>,
    /// The entries that cannot be used, and why.
    pub refused: Vec<ServerError>,
    /// Why the list was not read to its end, if it was not.
    pub stopped: Option<ServerError>,
}

impl Server {
    /// Lists the skills of the server, without retrieving their files. A server without the Skills extension has none.
    ///
    /// # Errors
    ///
    /// The server does not answer, or not with a list. If that happens after the first page, the result has the skills so
    /// far, and [`SkillList::stopped`] says why.
    pub async fn skills(&self) -> Result<SkillList, ServerError> {
        let mut list = SkillList::default();
        if !self.has_skills() {
            return Ok(list);
        }
        let max_skills = self.limits().skills;
        let mut pages = Pages::new(*self.limits());
        let mut uris = HashSet::new();
        let stopped = |why: &str| Some(self.odd(LIST, &format!("the list was not read to its end: {why}")));
        while pages.has_next() {
            let cursor = match pages.begin() {
                Ok(cursor) => cursor,
                Err(why) => {
                    list.stopped = stopped(&why);
                    break;
                }
            };
            let (skills, next) = match self.skill_page(cursor).await {
                Ok(page) => page,
                Err(error) if pages.is_first() => return Err(error),
                Err(error) => {
                    list.stopped = Some(error);
                    break;
                }
            };
            for entry in &skills {
                if uris.len() == max_skills || !pages.count(entry.to_string().len()) {
                    list.stopped = stopped("it has too many skills");
                    return Ok(list);
                }
                let is_new = uris.insert(entry["uri"].as_str().unwrap_or_default().to_owned());
                let offer =
                    if is_new { self.offer(entry) } else { Err(self.invalid(entry, "it is listed twice")) };
                match offer {
                    Ok(offer) => list.offers.push(offer),
                    Err(refused) if list.refused.len() < MAX_REFUSED => list.refused.push(refused),
                    Err(_) => {}
                }
            }
            if let Err(why) = pages.end(next) {
                list.stopped = stopped(why);
            }
        }
        Ok(list)
    }

    /// Asks for one page of the list. Returns its entries and the cursor of the next page.
    async fn skill_page(&self, cursor: Option<String>) -> Result<(Vec<Value>, Value), ServerError> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let mut result = self.custom(LIST, params).await?;
        match result["skills"].take() {
            Value::Array(skills) => Ok((skills, result["nextCursor"].take())),
            _ => Err(self.odd(LIST, "it has no list of skills")),
        }
    }

    /// Looks up one skill by its address, whether the server lists it or not. Retrieves none of its files.
    ///
    /// # Errors
    ///
    /// The server has no skill at this address, its entry cannot be used, or the server does not answer.
    pub async fn skill(&self, uri: &str) -> Result<Offer, ServerError> {
        let invalid = |why: &str| self.invalid(&json!({"uri": uri}), why);
        if !self.has_skills() {
            return Err(invalid("the server serves no skills"));
        }
        entry::check_address(uri).map_err(|why| invalid(&why))?;
        let mut result = self.custom(GET, json!({"uri": uri})).await?;
        let entry = result["skill"].take();
        if entry["uri"] != uri {
            return Err(self.odd(GET, "it describes another skill"));
        }
        self.offer(&entry)
    }

    fn offer(&self, entry: &Value) -> Result<Offer, ServerError> {
        let mut offer = entry::read(self.label(), entry).map_err(|why| self.invalid(entry, &why))?;
        let granted = self.grants().get(&offer.published.uri);
        offer.is_granted = granted.is_some_and(|granted| *granted == offer.published.digest());
        Ok(offer)
    }

    fn invalid(&self, entry: &Value, why: &str) -> ServerError {
        let uri = short_line(entry["uri"].as_str().unwrap_or("without an address"));
        ServerError::Invalid { server: self.label().clone(), uri, why: short_line(why) }
    }
}
