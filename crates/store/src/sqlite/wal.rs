//! Checks the write-ahead log that a killed process left beside a database.
//!
//! SQLite reads the log up to the first incomplete frame, because an unfinished transaction looks like that. If a later
//! frame follows, the transaction was finished and then damaged. SQLite would silently drop it and everything after it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

/// The head of the log: its byte order, the page size, and two random numbers that all of its frames repeat.
const HEAD: usize = 32;
/// The head of a frame: the page, the number of pages if it ends a transaction, the two random numbers, the checksum.
const FRAME_HEAD: usize = 24;
const MAX_PAGE: usize = 1 << 16;

/// What a log contains.
#[derive(Debug, Default)]
pub(super) struct WalContents {
    /// Whether SQLite would drop finished transactions.
    pub(super) is_damaged: bool,
    /// The pages of finished transactions.
    pub(super) pages: BTreeSet<u32>,
}

/// Reads a log. A missing log is empty.
pub(super) fn read(path: &Path) -> io::Result<WalContents> {
    let mut found = WalContents::default();
    let mut file = match File::open(path) {
        Ok(file) => BufReader::with_capacity(1 << 16, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    let mut head = [0; HEAD];
    if !read_whole(&mut file, &mut head)? {
        // It has not started.
        return Ok(found);
    }
    let is_big = number(&head, 0) & 1 == 1;
    let page = number(&head, 8) as usize;
    let mut sum = checksum(is_big, (0, 0), &head[..24]);
    if sum != (number(&head, 24), number(&head, 28)) || !page.is_power_of_two() || page > MAX_PAGE {
        // The head is flushed before frames follow it.
        let mut next = [0; FRAME_HEAD];
        found.is_damaged = read_whole(&mut file, &mut next)?;
        return Ok(found);
    }
    let salts = &head[16..24];
    let mut frame = vec![0; FRAME_HEAD + page];
    // How many transactions end at or after the first incomplete frame.
    let mut ended = None;
    let mut unfinished = Vec::new();
    while read_whole(&mut file, &mut frame)? {
        let is_of_this = &frame[8..16] == salts;
        if let Some(ended) = &mut ended {
            if is_of_this && *ended > 0 {
                found.is_damaged = true;
                break;
            }
            *ended += u32::from(is_of_this && number(&frame, 4) > 0);
            continue;
        }
        let expected = checksum(is_big, checksum(is_big, sum, &frame[..8]), &frame[FRAME_HEAD..]);
        if is_of_this && expected == (number(&frame, 16), number(&frame, 20)) {
            sum = expected;
            unfinished.push(number(&frame, 0));
            if number(&frame, 4) > 0 {
                found.pages.extend(unfinished.drain(..));
            }
        } else {
            ended = Some(u32::from(is_of_this && number(&frame, 4) > 0));
        }
    }
    Ok(found)
}

fn read_whole(file: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_be_bytes)
}

/// SQLite's checksum of the log, which continues from frame to frame.
fn checksum(is_big: bool, (mut one, mut other): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |bytes: [u8; 4]| if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let (pairs, _) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in pairs {
        one = one.wrapping_add(word([a, b, c, d])).wrapping_add(other);
        other = other.wrapping_add(word([e, f, g, h])).wrapping_add(one);
    }
    (one, other)
}
