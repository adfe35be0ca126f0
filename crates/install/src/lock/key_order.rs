//! The order in which `skills` writes the names of a lock, so that two tools write the same bytes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// Writes a map in the order of a sorted JavaScript object: numbers first, then text by UTF-16 units.
pub(super) struct Ordered<'a, T>(pub(super) &'a BTreeMap<&'a str, T>);

impl<T: Serialize> Serialize for Ordered<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<(&str, &T)> = self.0.iter().map(|(name, value)| (*name, value)).collect();
        entries.sort_by(|(a, _), (b, _)| compare(a, b));
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (name, value) in entries {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn compare(a: &str, b: &str) -> Ordering {
    match (index(a), index(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

/// The number, if JavaScript takes the name for an index: such names come first, however they are sorted.
fn index(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    (number < u32::MAX && number.to_string() == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node prints `Object.keys(Object.fromEntries(names.sort().map((name) => [name, 0])))` in this order.
    #[test]
    fn the_order_is_that_of_javascript() {
        let order = [
            "2",
            "10",
            "2048",
            "-x",
            "007",
            "4294967295",
            "Z",
            "a",
            "a-b",
            "a.b",
            "é",
            "\u{1F600}",
            "\u{FF21}",
        ];
        let mut sorted = order;
        sorted.sort();
        assert_ne!(sorted, order);
        sorted.sort_by(|a, b| compare(a, b));
        assert_eq!(sorted, order);
    }
}
