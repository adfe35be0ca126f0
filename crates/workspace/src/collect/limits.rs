//! The limits of collecting: how many files, and how large.

use crate::warning::RunWarning;

/// The most that a request can set for each limit.
const MOST: CollectLimits =
    CollectLimits { max_files: 1000, max_file_bytes: 64 << 20, max_total_bytes: 256 << 20 };

/// How many files are collected, and how large they can be.
///
/// ```
/// use prowess_workspace::collect::CollectLimits;
/// use prowess_workspace::Workspaces;
///
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("session-1")?;
/// std::fs::write(workspace.path().join("out/june.txt"), "a long report")?;
/// let mut limits = CollectLimits::default();
/// limits.max_file_bytes = 6;
/// let (files, warnings) = workspace.collect(&["$OUTPUT_DIR/*.txt".into()], limits)?;
/// assert_eq!(files[0].content.as_deref(), Some("a long"));
/// assert!(files[0].truncated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectLimits {
    /// The most files.
    pub max_files: usize,
    /// The most bytes of each file.
    pub max_file_bytes: u64,
    /// The most bytes of all files together.
    pub max_total_bytes: u64,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { max_files: 100, max_file_bytes: 4 << 20, max_total_bytes: 64 << 20 }
    }
}

impl CollectLimits {
    /// These limits, lowered to what one run may keep in memory.
    pub(crate) fn bounded(self, warnings: &mut Vec<RunWarning>) -> Self {
        let bounded = Self {
            max_files: self.max_files.min(MOST.max_files),
            max_file_bytes: self.max_file_bytes.min(MOST.max_file_bytes),
            max_total_bytes: self.max_total_bytes.min(MOST.max_total_bytes),
        };
        if bounded != self {
            warnings.push(RunWarning::LimitsLowered { most: MOST });
        }
        bounded
    }
}
