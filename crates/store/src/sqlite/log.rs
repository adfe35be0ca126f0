//! The log beside a database, as a process left it that was killed.
//!
//! SQLite reads it up to the first frame that is not whole, for that is how a transaction looks which was never
//! finished. When a later one follows it was finished, and then damaged: SQLite would drop it and all after it, and
//! say nothing.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

/// Of the log: which numbers its checksums are made of, the length of a page, and two random numbers that all
/// frames have which belong to it.
const HEAD: usize = 32;
/// Of a frame: the page, the number of pages if it ends a transaction, the two random numbers, the checksum.
const FRAME_HEAD: usize = 24;
const MAX_PAGE: usize = 1 << 16;

/// What a process left.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Whether finished transactions would be dropped.
    pub(super) is_damaged: bool,
    /// The pages of finished transactions.
    pub(super) pages: BTreeSet<u32>,
}

/// Reads a log; one that is not there has nothing in it.
pub(super) fn left(path: &Path) -> io::Result<Left> {
    let mut left = Left::default();
    let mut file = match File::open(path) {
        Ok(file) => BufReader::with_capacity(1 << 16, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(left),
        Err(error) => return Err(error),
    };
    let mut head = [0; HEAD];
    if !read_whole(&mut file, &mut head)? {
        // Not begun.
        return Ok(left);
    }
    let is_big = number(&head, 0) & 1 == 1;
    let page = number(&head, 8) as usize;
    let mut sum = checksum(is_big, (0, 0), &head[..24]);
    if sum != (number(&head, 24), number(&head, 28)) || !page.is_power_of_two() || page > MAX_PAGE {
        // A head is flushed before anything follows it.
        let mut next = [0; FRAME_HEAD];
        left.is_damaged = read_whole(&mut file, &mut next)?;
        return Ok(left);
    }
    let salts = &head[16..24];
    let mut frame = vec![0; FRAME_HEAD + page];
    // How many transactions end at or after the first frame that is not whole.
    let mut ended = None;
    let mut unfinished = Vec::new();
    while read_whole(&mut file, &mut frame)? {
        let is_of_this = &frame[8..16] == salts;
        if let Some(ended) = &mut ended {
            if is_of_this && *ended > 0 {
                left.is_damaged = true;
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
                left.pages.extend(unfinished.drain(..));
            }
        } else {
            ended = Some(u32::from(is_of_this && number(&frame, 4) > 0));
        }
    }
    Ok(left)
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

/// SQLite's checksum of the log, which goes on from frame to frame.
fn checksum(is_big: bool, (mut one, mut other): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |bytes: [u8; 4]| if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let (pairs, _) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in pairs {
        one = one.wrapping_add(word([a, b, c, d])).wrapping_add(other);
        other = other.wrapping_add(word([e, f, g, h])).wrapping_add(one);
    }
    (one, other)
}
