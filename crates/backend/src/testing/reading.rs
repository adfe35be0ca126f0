//! Behaviours of `read`.

use bytes::Bytes;

use super::Subject;
use super::subject::refused;
use crate::{Contents, ReadRange};

async fn read(subject: &Subject, relative: &str, range: ReadRange) -> Contents {
    subject.backend().read(&subject.at(relative), range).await.expect("the file can be read")
}

/// A read returns the path and all bytes, and marks them as whole.
pub async fn gives_back_what_was_written(subject: &Subject) {
    subject.put("dir/file", "hello\n").await;
    let contents = read(subject, "dir/file", ReadRange::first(100)).await;
    assert_eq!((&contents.path, contents.offset), (&subject.at("dir/file"), 0));
    assert!(contents.is_whole());
    assert_eq!(contents.into_text().expect("it is text"), "hello\n");
}

/// A read returns all 256 byte values unchanged.
pub async fn gives_back_any_bytes(subject: &Subject) {
    let all: Vec<u8> = (0..=255).collect();
    subject.put("file", all.clone()).await;
    assert_eq!(read(subject, "file", ReadRange::first(256)).await.bytes, all);
}

/// An empty file is whole, whatever the limit.
pub async fn an_empty_file_is_whole(subject: &Subject) {
    subject.put("file", "").await;
    for limit in [0, 1, 100] {
        let contents = read(subject, "file", ReadRange::first(limit)).await;
        assert!(contents.is_whole() && contents.bytes.is_empty(), "{contents:?}");
    }
}

/// A file exactly as long as the limit is whole.
pub async fn a_file_of_exactly_the_limit_is_whole(subject: &Subject) {
    subject.put("file", vec![b'x'; 1000]).await;
    let contents = read(subject, "file", ReadRange::first(1000)).await;
    assert!(contents.is_whole());
    assert_eq!(contents.bytes.len(), 1000);
}

/// A file one byte longer than the limit is cut, and the answer says so.
pub async fn one_byte_over_the_limit_is_cut_and_says_so(subject: &Subject) {
    subject.put("file", vec![b'x'; 1001]).await;
    let contents = read(subject, "file", ReadRange::first(1000)).await;
    assert!(contents.more && !contents.is_whole());
    assert_eq!(contents.bytes.len(), 1000);
    refused(contents.into_whole(), "too_large");
}

/// A range in the middle of a file reports that there is more.
pub async fn a_window_in_the_middle(subject: &Subject) {
    subject.put("file", "0123456789").await;
    let contents = read(subject, "file", ReadRange::first(3).at(4)).await;
    assert_eq!((&contents.bytes[..], contents.offset, contents.more), (&b"456"[..], 4, true));
    assert!(!contents.is_whole());
}

/// A range up to the end of a file reports that there is no more.
pub async fn a_window_to_the_end(subject: &Subject) {
    subject.put("file", "0123456789").await;
    for (limit, expected) in [(3, "789"), (100, "789")] {
        let contents = read(subject, "file", ReadRange::first(limit).at(7)).await;
        assert_eq!((&contents.bytes[..], contents.more), (expected.as_bytes(), false));
        assert!(!contents.is_whole(), "it does not begin at the beginning");
    }
}

/// A read beyond the end returns nothing and is not an error, because files can shrink.
pub async fn beyond_the_end_is_nothing(subject: &Subject) {
    subject.put("file", "0123456789").await;
    for offset in [10, 11, 1 << 40, u64::MAX] {
        let contents = read(subject, "file", ReadRange::first(5).at(offset)).await;
        assert_eq!((contents.bytes, contents.more), (Bytes::new(), false), "at {offset}");
    }
}

/// A limit of 0 tells whether the file has any bytes.
pub async fn nothing_can_be_asked_for(subject: &Subject) {
    subject.put("file", "x").await;
    let contents = read(subject, "file", ReadRange::first(0)).await;
    assert!(contents.bytes.is_empty() && contents.more, "{contents:?}");
}

/// The largest range neither overflows nor reserves all memory.
pub async fn the_largest_range_is_no_trap(subject: &Subject) {
    subject.put("file", "0123456789").await;
    assert_eq!(read(subject, "file", ReadRange::first(u64::MAX)).await.bytes, "0123456789");
    assert_eq!(read(subject, "file", ReadRange::first(u64::MAX).at(5)).await.bytes, "56789");
}

/// A directory cannot be read, and neither can the base.
pub async fn a_directory_is_refused(subject: &Subject) {
    subject.put("dir/file", "x").await;
    refused(subject.backend().read(&subject.at("dir"), ReadRange::first(10)).await, "is_directory");
    refused(subject.backend().read(subject.base(), ReadRange::first(10)).await, "is_directory");
}

/// A missing file fails, at the top and further down.
pub async fn nothing_is_not_found(subject: &Subject) {
    for relative in ["nothing", "no/thing"] {
        refused(subject.backend().read(&subject.at(relative), ReadRange::first(10)).await, "not_found");
    }
}

/// A path below a file does not exist.
pub async fn below_a_file_is_not_found(subject: &Subject) {
    subject.put("file", "x").await;
    refused(subject.backend().read(&subject.at("file/below"), ReadRange::first(10)).await, "not_found");
}

/// A file that is not UTF-8 cannot be read as text.
pub async fn what_is_not_text_is_refused_as_text(subject: &Subject) {
    subject.put("file", vec![b'a', 0xff]).await;
    refused(read(subject, "file", ReadRange::first(10)).await.into_text(), "not_text");
}
