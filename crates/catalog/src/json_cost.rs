//! Computes how much memory JSON will take as a tree, before a parser builds it.
//!
//! A parser turns a few bytes into hundreds: `{"a":1}` is 7 bytes of text and about 600 bytes of tree. So a limit on the length
//! of a message does not limit its memory. Code that reads JSON from strangers asks here first. This scans the text once and
//! allocates nothing. The text need not be valid: a parser that stops at an error has built no more than this counted.

use std::fmt;

/// How deep the nesting is counted. `serde_json` refuses the next level, so it builds nothing beyond.
const MAX_DEPTH: usize = 128;

/// The sizes in bytes of a value, of an entry of an object (hash, key and value), and of its slot in the hash table, in
/// `serde_json` with the feature `preserve_order`.
const VALUE: usize = 72;
const ENTRY: usize = 8 + 24 + VALUE;
const SLOT: usize = 9;
/// The group of control bytes at the end of a hash table.
const TABLE_END: usize = 16;
/// The smallest capacity of an array, and of the entries of an object.
const MIN_CAPACITY: usize = 4;
/// An allocator's overhead for each block, its rounding unit, and its smallest block.
const BLOCK_HEAD: usize = 8;
const BLOCK_UNIT: usize = 16;
const MIN_BLOCK: usize = 32;

/// The cost of a text as a tree of JSON values.
///
/// ```
/// use prowess_catalog::json_cost::JsonCost;
///
/// let cost = JsonCost::of(br#"{"a": [1, {}]}"#);
/// assert_eq!((cost.values, cost.depth), (4, 3));
/// assert!(cost.bytes > 500);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonCost {
    /// The number of objects, arrays, strings, numbers and words. The names of fields do not count.
    pub values: usize,
    /// The nesting depth of objects and arrays.
    pub depth: usize,
    /// The memory of the tree, in bytes.
    pub bytes: usize,
}

impl JsonCost {
    /// Counts the values of a text.
    pub fn of(text: &[u8]) -> Self {
        Scan {
            text,
            at: 0,
            cost: Self { bytes: VALUE, ..Self::default() },
            open: [OpenValue::default(); MAX_DEPTH],
        }
        .run()
    }
}

/// How much memory a tree may take: a minimum for every message, plus a percentage of its length.
///
/// ```
/// use prowess_catalog::json_cost::JsonRoom;
///
/// const ROOM: JsonRoom = JsonRoom::new(64 * 1024, 200);
/// assert!(ROOM.check(br#"{"name": "pdf"}"#).is_ok());
/// assert!(ROOM.check("[{},{}]".repeat(10_000).as_bytes()).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonRoom {
    floor: usize,
    percent: usize,
}

impl JsonRoom {
    /// Room for `floor` bytes plus `percent` of a text's length.
    pub const fn new(floor: usize, percent: usize) -> Self {
        Self { floor, percent }
    }

    /// Returns the cost of a text, if there is room for it.
    ///
    /// # Errors
    ///
    /// The tree would take more memory.
    pub fn check(&self, text: &[u8]) -> Result<JsonCost, JsonTooLarge> {
        let cost = JsonCost::of(text);
        let room = self.floor.saturating_add(text.len() / 100 * self.percent);
        if cost.bytes > room { Err(JsonTooLarge { values: cost.values, room }) } else { Ok(cost) }
    }
}

/// The tree of a text would take too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonTooLarge {
    /// The number of its values.
    pub values: usize,
    /// The memory that it may take, in bytes.
    pub room: usize,
}

impl fmt::Display for JsonTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { values, room } = self;
        write!(f, "the JSON has too many small values: {values} values need more than {room} bytes of memory")
    }
}

impl std::error::Error for JsonTooLarge {}

/// An object or an array that is not closed yet.
#[derive(Clone, Copy, Default)]
struct OpenValue {
    is_object: bool,
    /// Its fields or elements so far.
    items: usize,
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    cost: JsonCost,
    open: [OpenValue; MAX_DEPTH],
}

impl Scan<'_> {
    fn run(mut self) -> JsonCost {
        let mut depth = 0;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => self.string(depth),
                b'{' | b'[' => {
                    self.value(depth);
                    depth += 1;
                    self.cost.depth = self.cost.depth.max(depth);
                    let Some(open) = self.open.get_mut(depth - 1) else {
                        depth -= 1;
                        break;
                    };
                    *open = OpenValue { is_object: *byte == b'{', items: 0 };
                    self.at += 1;
                }
                b'}' | b']' => {
                    if depth > 0 {
                        depth -= 1;
                        self.close(depth);
                    }
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => self.word(depth),
            }
        }
        // A parser builds unclosed values until the text ends.
        (0..depth).for_each(|depth| self.close(depth));
        self.cost
    }

    /// Counts a value.
    fn value(&mut self, depth: usize) {
        self.cost.values += 1;
        if let Some(open) = depth.checked_sub(1).and_then(|at| self.open.get_mut(at))
            && !open.is_object
        {
            open.items += 1;
        }
    }

    /// Counts a string. It is a value unless a colon follows.
    fn string(&mut self, depth: usize) {
        let begin = self.at + 1;
        let mut end = begin;
        while let Some(found) = memchr::memchr2(b'"', b'\\', self.text.get(end..).unwrap_or_default()) {
            end += found;
            if self.text[end] == b'"' {
                break;
            }
            end += 2;
        }
        // An unclosed string reaches to the end of the text.
        let is_closed = self.text.get(end) == Some(&b'"');
        let end = if is_closed { end } else { self.text.len() };
        self.cost.bytes += block(end - begin);
        self.at = end + 1;
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b':') {
            self.at += 1;
            if let Some(open) = depth.checked_sub(1).and_then(|at| self.open.get_mut(at)) {
                open.items += 1;
            }
        } else {
            self.value(depth);
        }
    }

    /// Counts a number, `true`, `false`, `null`, or invalid text.
    fn word(&mut self, depth: usize) {
        self.value(depth);
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:\"{}[]".contains(byte);
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
    }

    fn close(&mut self, at: usize) {
        let OpenValue { is_object, items } = self.open[at];
        self.cost.bytes += if is_object { object(items) } else { array(items) };
    }
}

/// The memory of a block with this many bytes.
fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + BLOCK_HEAD).next_multiple_of(BLOCK_UNIT).max(MIN_BLOCK) }
}

/// The memory of the elements of an array, which grows by doubling.
fn array(items: usize) -> usize {
    if items == 0 { 0 } else { block(items.next_power_of_two().max(MIN_CAPACITY) * VALUE) }
}

/// The memory of the entries of an object, and of the hash table that finds them.
fn object(items: usize) -> usize {
    let slots = match items {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        8..=14 => 16,
        // An eighth of the table stays empty.
        _ => (items + items / 7 + 1).next_power_of_two(),
    };
    let entries = if slots <= 8 { slots - 1 } else { slots / 8 * 7 };
    block(entries.max(MIN_CAPACITY) * ENTRY) + block(slots * SLOT + TABLE_END)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// Values, depth, and at least how many bytes a tree has.
    fn counted(value: &Value) -> (usize, usize, usize) {
        let all = |values: Vec<(usize, usize, usize)>| {
            values.into_iter().fold((1, 0, 0), |(values, depth, bytes), inner| {
                (values + inner.0, depth.max(inner.1), bytes + inner.2)
            })
        };
        match value {
            Value::Array(items) => {
                let (values, depth, bytes) = all(items.iter().map(counted).collect());
                (values, depth + 1, bytes + items.capacity() * size_of::<Value>())
            }
            Value::Object(fields) => {
                let (values, depth, bytes) = all(fields.values().map(counted).collect());
                let names: usize = fields.keys().map(String::len).sum();
                (values, depth + 1, bytes + names + fields.len() * size_of::<(String, Value)>())
            }
            Value::String(text) => (1, 0, text.len()),
            _ => (1, 0, 0),
        }
    }

    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            "[\\\\\"/\\n{}\\[\\]:,]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::vec(("[a\"\\\\{:,]{0,3}", inner), 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    #[test]
    fn sizes_are_those_of_the_parser() {
        assert!(size_of::<Value>() <= VALUE, "a value has {} bytes", size_of::<Value>());
        assert!(size_of::<(String, Value)>() + 8 <= ENTRY);
    }

    #[test]
    fn what_is_no_json_is_counted_up_to_its_end() {
        for (text, values, depth) in [
            ("", 0, 0),
            ("  ", 0, 0),
            ("nul", 1, 0),
            ("\"abc", 1, 0),
            ("\"abc\\", 1, 0),
            ("]]]]", 0, 0),
            ("[1,2", 3, 1),
            ("{\"a\":", 1, 1),
            ("[}", 1, 1),
            ("1 2 3", 3, 0),
            ("{\"a\" : 1, \"a\" : 2}", 3, 1),
        ] {
            let cost = JsonCost::of(text.as_bytes());
            assert_eq!((cost.values, cost.depth), (values, depth), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(JsonCost::of(deep.as_bytes()).depth, MAX_DEPTH + 1, "a parser refuses it there");
        assert!(serde_json::from_str::<Value>(&deep).is_err());
    }

    #[test]
    fn bombs_cost_many_times_their_length_and_text_about_once() {
        for bomb in ["{}", "[]", "0", "{\"a\":1}", "[0]", "\"\"", "[[[[]]]]", "\"a\""] {
            let text = format!("[{}{bomb}]", format!("{bomb},").repeat(10_000));
            let times = JsonCost::of(text.as_bytes()).bytes / text.len();
            assert!(times >= 15, "{bomb}: {times}");
        }
        let text = Value::from("many words ".repeat(10_000)).to_string();
        assert!(JsonCost::of(text.as_bytes()).bytes < text.len() + 200);
    }

    #[test]
    fn there_is_room_for_a_floor_and_a_share() {
        let room = JsonRoom::new(10_000, 200);
        assert!(room.check(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).is_ok());
        let numbers = |count: usize| format!("[0{}]", ",0".repeat(count));
        assert!(room.check(numbers(100).as_bytes()).is_ok());
        let refused = room.check(numbers(10_000).as_bytes()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the JSON has too many small values: 10002 values need more than 50000 bytes of memory"
        );
    }

    proptest! {
        /// The scan counts what the parser builds, and its bytes are no fewer.
        #[test]
        fn a_scan_agrees_with_the_tree(tree in trees(), is_pretty in any::<bool>()) {
            let text = if is_pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let text = text.unwrap();
            let parsed: Value = serde_json::from_str(&text).unwrap();
            let (values, depth, bytes) = counted(&parsed);
            let cost = JsonCost::of(text.as_bytes());
            prop_assert_eq!((cost.values, cost.depth), (values, depth), "{}", text);
            prop_assert!(cost.bytes >= bytes + size_of::<Value>(), "{} of {}: {}", cost.bytes, bytes, text);
        }

        /// Nothing makes it panic, and what is cut off costs no more than the whole.
        #[test]
        fn any_bytes_are_counted(bytes in proptest::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\",:\\\\ 0a]{0,200}") {
            JsonCost::of(&bytes);
            let whole = JsonCost::of(json.as_bytes());
            for cut in 0..json.len() {
                prop_assert!(JsonCost::of(&json.as_bytes()[..cut]).values <= whole.values + 1);
            }
        }
    }
}
