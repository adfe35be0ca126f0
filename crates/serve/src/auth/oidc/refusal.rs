//! Why a sign-in was refused, on its way to the page: a cookie that the server signs and the page reads once.
//!
//! The text may be the issuer's. In an address, anybody could make the page show another one.

use hmac_sha256::HMAC;
use http::HeaderMap;
use prowess_base::hex;
use prowess_base::text::{cut, escape_unprintable};

use crate::auth::cookies;

/// The longest text, in characters.
const MAX_CHARS: usize = 300;
/// How long a browser keeps it, in seconds.
const LASTS: u32 = 60;
const NAME: &str = "prowess_refused";

/// Why sign-ins were refused.
#[derive(Debug)]
pub(super) struct Refusals {
    key: [u8; 32],
}

impl Refusals {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The cookie for a browser whose sign-in was refused.
    pub(super) fn cookie(&self, why: &str, request: &HeaderMap, is_encrypted: bool) -> String {
        let text = hex::encode(cut(&escape_unprintable(&cut(why, MAX_CHARS)), MAX_CHARS).as_bytes());
        let signature = hex::encode(&HMAC::mac(&text, self.key));
        set(request, &format!("{text}.{signature}"), LASTS, is_encrypted)
    }

    /// The text of a browser's cookie, and the cookie that makes it forget that.
    pub(super) fn take(&self, request: &HeaderMap, is_encrypted: bool) -> (Option<String>, Option<String>) {
        let Some(value) = cookies::value(&cookies::name(NAME, request), request) else { return (None, None) };
        let text = value.split_once('.').and_then(|(text, signature)| {
            let signature: [u8; 32] = hex::decode(signature)?;
            let is_ours = HMAC::mac(HMAC::mac(text, self.key), self.key) == HMAC::mac(signature, self.key);
            is_ours.then(|| decoded(text)).flatten()
        });
        (text, Some(set(request, "", 0, is_encrypted)))
    }
}

fn set(request: &HeaderMap, value: &str, lasts: u32, is_encrypted: bool) -> String {
    let (name, secure) = (cookies::name(NAME, request), if is_encrypted { "; Secure" } else { "" });
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}")
}

fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes().chunks(2).map(|pair| {
        let [byte] = hex::decode(std::str::from_utf8(pair).ok()?)?;
        Some(byte)
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([
            (http::header::HOST, "127.0.0.1:8930".parse().unwrap()),
            (http::header::COOKIE, pair.parse().unwrap()),
        ])
    }

    #[test]
    fn a_browser_reads_what_the_server_said_and_nothing_else() {
        let refusals = Refusals::new([1; 32]);
        let cookie = refusals.cookie("no\u{202e} <b>entry</b>\n", &request("a=b"), true);
        assert!(cookie.starts_with("prowess_refused_8930=") && cookie.ends_with("; Secure"), "{cookie}");
        let (text, forgets) = refusals.take(&request(&cookie), true);
        assert_eq!(text.as_deref(), Some(r"no\u{202e} <b>entry</b>\u{a}"));
        assert!(forgets.unwrap().contains("prowess_refused_8930=; Path=/"));
        assert_eq!(refusals.take(&request("a=b"), true), (None, None));
        // Another site of the same domain can set a cookie, but cannot sign it.
        let forged = Refusals::new([2; 32]).cookie("Call 555", &request("a=b"), true);
        for wrong in [forged.as_str(), "prowess_refused_8930=6e6f.", "prowess_refused_8930=zz"] {
            assert_eq!(refusals.take(&request(wrong), true).0, None);
        }
        let long = refusals.cookie(&"x".repeat(5000), &request("a=b"), false);
        assert_eq!(refusals.take(&request(&long), false).0.unwrap().chars().count(), MAX_CHARS + 1);
    }
}
