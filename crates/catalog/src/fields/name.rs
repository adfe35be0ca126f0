//! `name`: its rules, and the directory's name if there is none.

use std::ops::Range;

use super::Reader;
use super::quote::{quote, quote_if_needed};
use crate::diagnostic::Code;
use crate::name::{self, MAX_NAME_CHARS, NameError, SkillName};
use crate::skill::{Location, MissingName};
use crate::untrusted;
use crate::yaml::{Key, Kind, Node, Schema};

impl Reader<'_, '_, '_> {
    pub(super) fn name(
        &mut self,
        entry: Option<&(Key<'_>, Node<'_>)>,
        first_key: Option<&Key<'_>>,
        location: &Location,
        missing: MissingName,
    ) -> Option<SkillName> {
        let directory = location.directory_name().map(name::normalise);
        let Some((key, node)) = entry else {
            let at = self.base..self.base;
            let insertion = Some("name: {}\n").filter(|_| self.takes_a_line_before(first_key));
            let problem = (Code::NameMissing, "no `name`");
            return self.name_from_directory(problem, &at, directory.as_deref(), missing, insertion);
        };
        let Kind::Scalar { text, schema, .. } = &node.kind else {
            let place = self.place(&node.range);
            self.findings.refuse(Code::NameNotString, Some(place), "the name is a list or a map");
            return None;
        };
        let normal = name::normalise(text);
        if *schema == Schema::Null || normal.is_empty() {
            let (place, insertion) = self.place_of_empty_name(key, node);
            let problem = (Code::NameEmpty, "the name is empty");
            return self.name_from_directory(problem, &place, directory.as_deref(), missing, insertion);
        }
        let place = self.written(node);
        if *schema == Schema::Other {
            let rewritable = self.rewritable();
            let message = "the name is a number or a boolean; prowess uses its text";
            self.findings
                .add(Code::NameNotString, Some(place.clone()), message)
                .hint("put it in quotes")
                .fix_if(rewritable, place.clone(), quote(text));
        }
        self.report_name(&normal, &place, directory.as_deref());
        match SkillName::parse(&normal) {
            Ok(name) => Some(name),
            Err(error) => {
                let code =
                    if error == NameError::TooLong { Code::NameTooLong } else { Code::NameInvalidChars };
                self.findings.refuse(code, Some(place), error.to_string());
                None
            }
        }
    }

    /// Where a name belongs in place of an empty one, and how a fix writes it there, if it may.
    fn place_of_empty_name(&self, key: &Key<'_>, node: &Node<'_>) -> (Range<usize>, Option<&'static str>) {
        let place = self.written(node);
        let (place, insertion) = if place.is_empty() {
            let after = self.after_colon(key);
            (after.map_or(place, |at| at..at), after.map(|_| " {}"))
        } else {
            (place, Some("{}"))
        };
        (place, insertion.filter(|_| self.rewritable()))
    }

    fn name_from_directory(
        &mut self,
        (code, message): (Code, &str),
        place: &Range<usize>,
        directory: Option<&str>,
        missing: MissingName,
        insertion: Option<&str>,
    ) -> Option<SkillName> {
        let fallback = directory
            .filter(|_| missing == MissingName::UseDirectory)
            .and_then(|name| SkillName::parse(name).ok());
        match fallback {
            Some(name) => {
                let written = quote_if_needed(name.as_str());
                let replacement = insertion.map(|insertion| insertion.replace("{}", &written));
                self.findings
                    .add(
                        code,
                        Some(place.clone()),
                        format!("{message}; prowess uses the directory's name `{name}`"),
                    )
                    .hint(format!("add `name: {name}`"))
                    .fix_if(replacement.is_some(), place.clone(), replacement.unwrap_or_default());
                Some(name)
            }
            None => {
                self.findings
                    .refuse(code, Some(place.clone()), message)
                    .hint("add `name: …`, equal to the directory's name");
                None
            }
        }
    }

    fn report_name(&mut self, name: &str, place: &Range<usize>, directory: Option<&str>) {
        let shown = untrusted::one_line(name);
        self.report_spelling(name, &shown, place);
        if !name.is_ascii() && untrusted::mixes_scripts(name) {
            let message = format!("the name `{shown}` mixes letters of scripts that look alike");
            self.findings.add(Code::SuspiciousUnicode, Some(place.clone()), message).hint("use one script");
        }
        if let Some(directory) = directory.filter(|directory| *directory != name) {
            let message = format!(
                "the name `{shown}` is not the directory's name `{}`",
                untrusted::one_line(directory)
            );
            // If the directory has the same name in the specification's spelling, that spelling is meant.
            let meant = self.rewritable() && SkillName::spelling(name) == directory;
            self.findings
                .add(Code::NameDirMismatch, Some(place.clone()), message)
                .hint("rename one of them")
                .fix_if(meant, place.clone(), quote_if_needed(directory));
        }
    }

    /// Reports what the specification does not allow in a name. `shown` is the name on one line.
    fn report_spelling(&mut self, name: &str, shown: &str, place: &Range<usize>) {
        let mut add = |code, message: String, hint: &str| {
            self.findings.add(code, Some(place.clone()), message).hint(hint);
        };
        let count = name.chars().count();
        if count > MAX_NAME_CHARS {
            let message = format!("the name has {count} characters, {MAX_NAME_CHARS} are allowed");
            add(Code::NameTooLong, message, "shorten it");
        }
        if name.chars().any(char::is_uppercase) {
            let message = format!("the name `{shown}` has uppercase letters");
            add(Code::NameUppercase, message, "write it in lowercase");
        }
        if let Some(c) = name.chars().find(|&c| !c.is_alphanumeric() && c != '-') {
            let message = format!(
                "the name has `{}`; letters, digits and single hyphens are allowed",
                c.escape_debug()
            );
            add(Code::NameInvalidChars, message, "use hyphens between words");
        } else if !name.is_ascii() {
            let message = format!("the name `{shown}` has characters outside ASCII");
            add(Code::NameNonAscii, message, "some clients refuse it");
        }
        if name.starts_with('-') || name.ends_with('-') {
            let message = format!("the name `{shown}` begins or ends with a hyphen");
            add(Code::NameEdgeHyphen, message, "remove it");
        }
        if name.contains("--") {
            add(Code::NameDoubleHyphen, format!("the name `{shown}` has two hyphens in a row"), "use one");
        }
    }
}
