//! The skills that a server offers.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::entry;
use super::error::ServerError;
use super::printable::printable;
use super::server::Server;
use prowess_catalog::published::Offer;

const LIST: &str = "skills/list";
const GET: &str = "skills/get";
/// The longest cursor that is handed back.
const MAX_CURSOR: usize = 4096;
/// How many refusals are told; a server may have any number of odd entries.
const MAX_REFUSED: usize = 100;

/// What a server lists. It need not be all that it serves.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SkillList {
    /// The skills that can be used, in the server's order.
    pub offers: Vec<Offer>,
    /// The entries that cannot, and why.
    pub refused: Vec<ServerError>,
    /// Why the list was not read to its end, if it was not.
    pub stopped: Option<ServerError>,
}

impl Server {
    /// Its skills, as it lists them. None of their files is retrieved. A server without the extension has none.
    ///
    /// # Errors
    ///
    /// It does not answer, or not with a list. When that happens after the first page, what there is is given with
    /// [`SkillList::stopped`].
    pub async fn skills(&self) -> Result<SkillList, ServerError> {
        let mut list = SkillList::default();
        if !self.has_skills() {
            return Ok(list);
        }
        let limits = *self.limits();
        let begun = Instant::now();
        let (mut uris, mut cursors) = (HashSet::new(), HashSet::new());
        let mut bytes = 0_usize;
        let mut cursor: Option<String> = None;
        for page in 0_usize.. {
            let stop = |why: &str| Some(self.odd(LIST, &format!("the list is not read on: {why}")));
            if page == limits.pages {
                list.stopped = stop(&format!("it has more than {page} pages"));
                break;
            }
            if begun.elapsed() > limits.list {
                list.stopped = stop(&format!("it takes longer than {} seconds", limits.list.as_secs_f64()));
                break;
            }
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let result = match self.custom(LIST, params).await {
                Ok(result) => result,
                Err(error) if page == 0 => return Err(error),
                Err(error) => {
                    list.stopped = Some(error);
                    break;
                }
            };
            let Some(skills) = result["skills"].as_array() else {
                let odd = self.odd(LIST, "it has no list of skills");
                if page == 0 {
                    return Err(odd);
                }
                list.stopped = Some(odd);
                break;
            };
            for entry in skills {
                bytes = bytes.saturating_add(entry.to_string().len());
                if uris.len() == limits.skills || bytes > limits.list_bytes {
                    list.stopped = stop("it has too many skills");
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
            cursor = match &result["nextCursor"] {
                Value::Null => break,
                Value::String(next) if next.len() <= MAX_CURSOR => Some(next.clone()),
                _ => {
                    list.stopped = stop("the cursor of its next page is none");
                    break;
                }
            };
            if !cursors.insert(cursor.clone()) {
                list.stopped = stop("a page comes again");
                break;
            }
        }
        Ok(list)
    }

    /// One skill, by its address: any that the server serves, listed or not. None of its files is retrieved.
    ///
    /// # Errors
    ///
    /// There is no skill at this address, its entry cannot be used, or the server does not answer.
    pub async fn skill(&self, uri: &str) -> Result<Offer, ServerError> {
        let invalid = |why: &str| self.invalid(&json!({"uri": uri}), why);
        if !self.has_skills() {
            return Err(invalid("the server serves no skills"));
        }
        entry::check_address(uri).map_err(|why| invalid(&why))?;
        let mut result = self.custom(GET, json!({"uri": uri})).await?;
        let entry = result["skill"].take();
        if entry["uri"] != uri {
            return Err(self.odd(GET, "it is of another skill"));
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
        let uri = printable(entry["uri"].as_str().unwrap_or("without an address"));
        ServerError::Invalid { server: self.label().clone(), uri, why: printable(why) }
    }
}
