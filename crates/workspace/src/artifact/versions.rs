//! The version numbers of one artifact: which exist, which were deleted, and which comes next.
//!
//! An index on disk or in an object store creates one file for each version. Creating it is conditional, so two savers
//! never get the same number, and no lock is needed that a crash could leave behind. A deletion writes a mark with the
//! last deleted number. The mark stays, so that later saves continue after it.

/// The version numbers of one artifact, sorted.
#[derive(Debug, Default)]
pub(super) struct VersionNumbers {
    /// The numbers that have a record, deleted or not.
    pub(super) records: Vec<u64>,
    /// The last number of each deletion.
    pub(super) deleted: Vec<u64>,
}

impl VersionNumbers {
    /// The numbers of these records and deletion marks, in any order.
    pub(super) fn new(mut records: Vec<u64>, mut deleted: Vec<u64>) -> Self {
        records.sort_unstable();
        deleted.sort_unstable();
        Self { records, deleted }
    }

    /// Whether a version was deleted.
    pub(super) fn is_deleted(&self, version: u64) -> bool {
        self.deleted.last().is_some_and(|last| version <= *last)
    }

    /// The versions that were not deleted.
    pub(super) fn visible(&self) -> &[u64] {
        let first = self.records.partition_point(|version| self.is_deleted(*version));
        &self.records[first..]
    }

    /// The first number that was never used, as far as can be seen.
    pub(super) fn next(&self) -> u64 {
        self.records.last().max(self.deleted.last()).map_or(0, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::VersionNumbers;

    #[test]
    fn a_deleted_number_is_hidden_and_never_used_again() {
        assert_eq!(VersionNumbers::default().next(), 0);
        let numbers = VersionNumbers::new(vec![3, 1, 2], vec![2]);
        assert_eq!((numbers.visible(), numbers.next()), (&[3][..], 4));
        assert!(numbers.is_deleted(2) && !numbers.is_deleted(3));
        let all_deleted = VersionNumbers::new(vec![1], vec![0, 5]);
        assert_eq!((all_deleted.visible(), all_deleted.next()), (&[][..], 6));
    }
}
