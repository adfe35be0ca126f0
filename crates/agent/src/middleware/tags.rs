//! Keeps untrusted text between its tags.

/// Escapes all closing tags of this name, in any spelling, so that the text cannot close the tag around it.
pub(super) fn escape_closing_tag(text: &str, tag: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('<') {
        safe.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let name = rest.trim_start().strip_prefix('/').map(str::trim_start);
        let closes =
            name.and_then(|name| name.get(..tag.len())).is_some_and(|name| name.eq_ignore_ascii_case(tag));
        safe.push_str(if closes { "&lt;" } else { "<" });
    }
    safe.push_str(rest);
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_closes_a_tag() {
        for close in ["</summary>", "</SUMMARY>", "</summary >", "< / Summary\n>", "</summary foo>"] {
            let safe = escape_closing_tag(&format!("a {close} b <summary> <b>"), "summary");
            assert_eq!(safe, format!("a &lt;{} b <summary> <b>", &close[1..]));
        }
        assert_eq!(escape_closing_tag("ä</sum", "summary"), "ä</sum");
        assert_eq!(escape_closing_tag("</suä", "summary"), "</suä");
    }
}
