//! Values as JSON, with the feature `serde`.
#![cfg(feature = "serde")]

use prowess_backend::cap::Cap;
use prowess_backend::{Entry, EntryKind, Stamp, VirtualPath};

#[test]
fn a_path_is_checked_on_its_way_in() {
    let path: VirtualPath = serde_json::from_str(r#""/a/b""#).unwrap();
    assert_eq!(serde_json::to_string(&path).unwrap(), r#""/a/b""#);
    for hostile in [r#""a""#, r#""/../a""#, r#""/a\u0000""#, "1"] {
        assert!(serde_json::from_str::<VirtualPath>(hostile).is_err(), "{hostile}");
    }
}

#[test]
fn an_entry_comes_back_as_it_was() {
    let path = VirtualPath::parse("/a").unwrap();
    let stamp = Some(Stamp::new("\"v1\""));
    let entry = Entry { path, kind: EntryKind::File, size: 3, modified: None, stamp };
    let json = serde_json::to_string(&entry).unwrap();
    assert_eq!(json, r#"{"path":"/a","kind":"file","size":3,"modified":null,"stamp":"\"v1\""}"#);
    assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry);
    assert_eq!(serde_json::to_string(&Cap::Results(2)).unwrap(), r#"{"results":2}"#);
}
