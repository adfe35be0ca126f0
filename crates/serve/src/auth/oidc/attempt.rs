//! An attempt to sign in: what binds the answer of the issuer to the browser that began.
//!
//! The browser keeps the attempt in a cookie, which the server signs. `state`, `nonce` and the PKCE verifier follow from the
//! cookie and from a key of this process. So attempts of strangers take no memory: the server remembers only the few that
//! ended, so that each works once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac_sha256::HMAC;
use prowess_base::hex;

use crate::app::lock;

/// How long an attempt may take.
pub(super) const LASTS: Duration = Duration::from_secs(600);
/// The most ended attempts that are remembered. More than can end in ten minutes at the allowed rate.
const MAX_ENDED: usize = 10_000;

/// Attempts of this process.
#[derive(Debug)]
pub(super) struct Attempts {
    key: [u8; 32],
    /// The attempts that ended, and when they would have expired.
    ended: Mutex<HashMap<[u8; 32], u64>>,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    id: [u8; 32],
    /// When it expires, in seconds since 1970.
    expires: u64,
    /// The digest of the link with which it began.
    pub(super) link: Option<[u8; 32]>,
    /// The value of the cookie.
    pub(super) cookie: String,
    /// What the issuer sends back with the browser.
    pub(super) state: String,
    /// What the issuer puts into the ID token.
    pub(super) nonce: String,
    /// What proves to the issuer that the code comes to who asked for it.
    pub(super) verifier: String,
}

impl Attempts {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key, ended: Mutex::default() }
    }

    /// A new attempt, with the digest of a link.
    pub(super) fn begin(&self, link: Option<[u8; 32]>) -> Result<Attempt, getrandom::Error> {
        let mut id = [0; 32];
        getrandom::fill(&mut id)?;
        Ok(self.attempt(id, seconds(SystemTime::now() + LASTS), link))
    }

    fn attempt(&self, id: [u8; 32], expires: u64, link: Option<[u8; 32]>) -> Attempt {
        let link_text = link.map(|digest| hex::encode(&digest)).unwrap_or_default();
        let signed = format!("{expires}.{}.{link_text}", hex::encode(&id));
        let derived = |purpose: &str| hex::encode(&HMAC::mac(format!("{purpose}:{signed}"), self.key));
        Attempt {
            id,
            expires,
            link,
            state: derived("state"),
            nonce: derived("nonce"),
            verifier: derived("verifier"),
            cookie: format!("{signed}.{}", derived("cookie")),
        }
    }

    /// The attempt of a cookie and of the `state` that came back. `None` if it expired, or is another one.
    pub(super) fn resume(&self, cookie: &str, state: &str) -> Option<Attempt> {
        self.resume_at(cookie, state, SystemTime::now())
    }

    fn resume_at(&self, cookie: &str, state: &str, now: SystemTime) -> Option<Attempt> {
        let mut parts = cookie.split('.');
        let expires: u64 = parts.next()?.parse().ok()?;
        let id = hex::decode(parts.next()?)?;
        let link = match parts.next()? {
            "" => None,
            digest => Some(hex::decode(digest)?),
        };
        let attempt = self.attempt(id, expires, link);
        let is_same = self.same(&attempt.cookie, cookie) && self.same(&attempt.state, state);
        (is_same && expires > seconds(now)).then_some(attempt)
    }

    /// Compares two texts in a time that says nothing about them.
    fn same(&self, one: &str, other: &str) -> bool {
        HMAC::mac(one, self.key) == HMAC::mac(other, self.key)
    }

    /// Ends an attempt. Only the first caller gets `true`.
    pub(super) fn end(&self, attempt: &Attempt) -> bool {
        self.end_at(attempt, SystemTime::now())
    }

    fn end_at(&self, attempt: &Attempt, now: SystemTime) -> bool {
        let mut ended = lock(&self.ended);
        if ended.len() >= MAX_ENDED {
            let now = seconds(now);
            ended.retain(|_, expires| *expires > now);
        }
        ended.len() < MAX_ENDED && ended.insert(attempt.id, attempt.expires).is_none()
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_belongs_to_its_browser_and_its_state() {
        let attempts = Attempts::new([1; 32]);
        let (one, other) = (attempts.begin(Some([7; 32])).unwrap(), attempts.begin(None).unwrap());
        assert_eq!(attempts.resume(&one.cookie, &one.state), Some(one.clone()));
        assert_eq!(attempts.resume(&one.cookie, &other.state), None);
        assert_eq!(attempts.resume(&other.cookie, &one.state), None);
        assert_eq!(attempts.resume(&one.cookie, &one.nonce), None);
        // Each value is another secret.
        let values = [&one.state, &one.nonce, &one.verifier, &one.cookie, &other.verifier];
        let different: std::collections::HashSet<_> = values.iter().collect();
        assert_eq!(different.len(), values.len());
        // PKCE wants at least 43 characters.
        assert_eq!(one.verifier.len(), 64);
    }

    #[test]
    fn nobody_can_make_or_change_one() {
        let attempts = Attempts::new([1; 32]);
        let one = attempts.begin(None).unwrap();
        let link = hex::encode(&[9; 32]);
        let changed = [
            one.cookie.replacen('1', "2", 1),
            one.cookie.replacen("..", &format!(".{link}."), 1),
            one.cookie.trim_end_matches(char::is_alphanumeric).to_owned(),
            format!("{}.", one.cookie),
            String::new(),
            "...".to_owned(),
        ];
        for cookie in changed {
            assert_eq!(attempts.resume(&cookie, &one.state), None, "{cookie}");
        }
        let elsewhere = Attempts::new([2; 32]).begin(None).unwrap();
        assert_eq!(attempts.resume(&elsewhere.cookie, &elsewhere.state), None);
    }

    #[test]
    fn it_works_once_and_for_ten_minutes() {
        let attempts = Attempts::new([1; 32]);
        let one = attempts.begin(None).unwrap();
        let at = |after: u64| {
            let time = SystemTime::now() + Duration::from_secs(after);
            attempts.resume_at(&one.cookie, &one.state, time).is_some()
        };
        assert!(at(0) && at(590) && !at(601));
        assert!(attempts.end(&one));
        assert!(!attempts.end(&one));
    }

    #[test]
    fn a_flood_of_ended_attempts_is_bounded_and_lets_nothing_pass_twice() {
        let attempts = Attempts::new([1; 32]);
        let all: Vec<_> = (0..MAX_ENDED).map(|_| attempts.begin(None).unwrap()).collect();
        assert!(all.iter().all(|one| attempts.end(one)));
        let late = attempts.begin(None).unwrap();
        assert!(!attempts.end(&late) && !attempts.end(&all[0]));
        // What expired makes room.
        let now = SystemTime::now() + LASTS + Duration::from_secs(2);
        assert!(attempts.end_at(&late, now));
        assert_eq!(lock(&attempts.ended).len(), 1);
    }
}
