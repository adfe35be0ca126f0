//! Tests of hexadecimal digits.

use proptest::prelude::*;
use prowess_base::hex::{decode, encode};

#[test]
fn bytes_have_one_spelling() {
    assert_eq!(decode("00ff"), Some([0, 255]));
    for other in ["", "00f", "00fff", "00FF", "0 ff", "+0ff", "zzff", "é0f", "éé"] {
        assert_eq!(decode::<2>(other), None, "{other}");
    }
    assert_eq!(decode::<0>(""), Some([]));
}

proptest! {
    #[test]
    fn digits_are_read_back(bytes: [u8; 20]) {
        let text = encode(&bytes);
        prop_assert_eq!(decode(&text), Some(bytes));
        prop_assert!(text.bytes().all(|digit| b"0123456789abcdef".contains(&digit)));
    }
}
