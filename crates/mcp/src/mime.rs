//! The media type of a file, by its name.

/// Media types by extension.
const TYPES: &[(&str, &str)] = &[
    ("bash", "application/x-sh"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("ts", "text/x-typescript"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// The media type of a file with this name, if its extension is known.
pub(crate) fn of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?.1.to_ascii_lowercase();
    let at = TYPES.binary_search_by(|(known, _)| (*known).cmp(extension.as_str())).ok()?;
    Some(TYPES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_counts() {
        assert!(TYPES.is_sorted());
        assert_eq!(of("references/FORMS.MD"), Some("text/markdown"));
        assert_eq!(of("a.tar.zip"), Some("application/zip"));
        assert_eq!([of(".md"), of("Makefile"), of("x.unknown"), of("")], [None; 4]);
    }
}
