//! Texts between tags, which they cannot leave.

/// A text that cannot close the tag around it, however that is written.
pub(super) fn unclosed(text: &str, tag: &str) -> String {
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
    fn no_way_of_writing_it_closes_a_frame() {
        for close in ["</summary>", "</SUMMARY>", "</summary >", "< / Summary\n>", "</summary foo>"] {
            let safe = unclosed(&format!("a {close} b <summary> <b>"), "summary");
            assert_eq!(safe, format!("a &lt;{} b <summary> <b>", &close[1..]));
        }
        assert_eq!(unclosed("ä</sum", "summary"), "ä</sum");
        assert_eq!(unclosed("</suä", "summary"), "</suä");
    }
}
