//! Holds a walk over directories to the limits of its options.

use std::time::Instant;

use crate::diagnostic::Code;
use crate::listing::Rules;
use crate::scan::{RootScan, ScanOptions};

#[derive(Debug)]
pub(crate) struct Progress {
    directories: usize,
    deadline: Option<Instant>,
    stopped: bool,
}

impl Progress {
    pub(crate) fn new(options: &ScanOptions) -> Self {
        let deadline = Instant::now().checked_add(options.time_budget);
        Self { directories: 0, deadline, stopped: false }
    }

    /// Whether a limit ended the walk.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the time is up.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Ends the walk because the time is up.
    pub(crate) fn end_late(&mut self, rules: &Rules<'_>, scan: &mut RootScan) {
        let message = format!("the scan was stopped after {:?}", rules.options.time_budget);
        let hint = "raise the time budget, or give a narrower root";
        self.end(rules, scan, Code::TimeBudget, message, hint);
    }

    /// Shortens the next level to the directories that may still be scanned.
    pub(crate) fn cap_level<T>(&mut self, level: &mut Vec<T>, rules: &Rules<'_>, scan: &mut RootScan) {
        let cap = rules.options.max_directories;
        let left = cap.saturating_sub(self.directories);
        if level.len() > left {
            let message =
                format!("only {cap} directories were scanned; {} or more were not", level.len() - left);
            level.truncate(left);
            self.end(rules, scan, Code::DirectoryCap, message, "raise the limit, or give a narrower root");
        }
        self.directories += level.len();
    }

    /// Shortens the list of skills to the limit.
    pub(crate) fn cap_skills(&mut self, rules: &Rules<'_>, scan: &mut RootScan) {
        let cap = rules.options.max_skills;
        if scan.found.len() > cap {
            scan.found.truncate(cap);
            let message = format!("only the first {cap} skills are used");
            self.end(rules, scan, Code::SkillCap, message, "raise the limit, or give a narrower root");
        }
    }

    fn end(&mut self, rules: &Rules<'_>, scan: &mut RootScan, code: Code, message: String, hint: &str) {
        self.stopped = true;
        scan.diagnostics.push(rules.diagnostic(code, "", message).hint(hint));
    }
}
