//! The forms in which a check is printed.

pub(crate) mod github;
pub(crate) mod human;
pub(crate) mod machine;
pub(crate) mod sarif;

use prowess_catalog::check::CheckReport;
use prowess_catalog::{Diagnostic, Severity};

/// How bad a finding is to a check: what makes a skill invalid is an error, whether it loads or not.
fn severity(report: &CheckReport, found: &Diagnostic) -> Severity {
    if report.profile.rejects(found.code) { Severity::Error } else { found.severity.min(Severity::Warning) }
}
