//! URLs in messages.

/// A URL without its user name, password and query, which can be secret.
pub(crate) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host =
        authority.rsplit_once('@').map_or_else(|| authority.to_owned(), |(_, host)| format!("…@{host}"));
    let path = path.split_once(['?', '#']).map_or_else(|| path.to_owned(), |(path, _)| format!("{path}?…"));
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_what_could_be_secret() {
        assert_eq!(without_secrets("https://a:b@c.example/v1?k=1"), "https://…@c.example/v1?…");
        assert_eq!(without_secrets("http://127.0.0.1:1/v1"), "http://127.0.0.1:1/v1");
    }
}
