//! The report of a run, shortened for a model.

use prowess_workspace::tree::Tree;
use serde_json::Value;

/// How much of each output stream a model reads, in bytes. Beginning and end stay.
pub const MAX_SHOWN_OUTPUT: usize = 16 * 1024;
/// How much of the contents of all collected files a model reads, in bytes.
pub const MAX_SHOWN_FILES: usize = 32 * 1024;
/// The most warnings that a model reads.
const MAX_SHOWN_WARNINGS: usize = 20;

/// The text for the model: [`SkillToolAnswer::text`](crate::SkillToolAnswer::text) for the
/// [`data`](crate::SkillToolAnswer::data) of a run. If you add to the data, such as addresses of files, make the text again.
///
/// ```
/// let report = serde_json::json!({"stdout": "x".repeat(1_000_000), "truncated": false});
/// let text = prowess_skills::run::report_text(report);
/// assert!(text.len() < 100_000 && text.contains(r#""truncated":true"#));
/// ```
pub fn report_text(report: Value) -> String {
    shorten_report(report).to_string()
}

/// Adds the path of each collected file, as the model's other tools know it.
pub(super) fn add_paths(report: &mut Value, tree: &Tree) {
    for file in report["output_files"].as_array_mut().into_iter().flatten() {
        if let Some(name) = file["name"].as_str() {
            file["path"] = format!("{}/{name}", tree.work()).into();
        }
    }
}

/// The report with long texts cut in the middle. `truncated` says whether something was cut.
pub(super) fn shorten_report(mut report: Value) -> Value {
    let mut is_cut = false;
    for stream in ["stdout", "stderr"] {
        if let Some(text) =
            report.get(stream).and_then(Value::as_str).and_then(|text| cut_middle(text, MAX_SHOWN_OUTPUT))
        {
            report[stream] = text.into();
            is_cut = true;
        }
    }
    let mut room = MAX_SHOWN_FILES;
    for file in report["output_files"].as_array_mut().into_iter().flatten() {
        let Some(text) = file["content"].as_str() else { continue };
        match cut_middle(text, room) {
            None => room -= text.len(),
            Some(text) => {
                room = room.saturating_sub(text.len());
                file["content"] = text.into();
                file["truncated"] = true.into();
                is_cut = true;
            }
        }
    }
    if let Some(warnings) = report["warnings"].as_array_mut()
        && warnings.len() > MAX_SHOWN_WARNINGS
    {
        let more = warnings.len() - MAX_SHOWN_WARNINGS;
        warnings.truncate(MAX_SHOWN_WARNINGS);
        warnings.push(format!("and {more} more warnings").into());
        is_cut = true;
    }
    if is_cut {
        report["truncated"] = true.into();
    }
    report
}

/// The beginning and the end of a text that has more than `most` bytes; `None` if it is short enough.
fn cut_middle(text: &str, most: usize) -> Option<String> {
    if text.len() <= most {
        return None;
    }
    let head = &text[..text.floor_char_boundary(most / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - most / 2)..];
    let left_out = text.len() - head.len() - tail.len();
    Some(format!("{head}\n[… {left_out} bytes left out …]\n{tail}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_output_keeps_both_ends() {
        let long = format!("begin{}end", "é".repeat(MAX_SHOWN_OUTPUT));
        let short = cut_middle(&long, MAX_SHOWN_OUTPUT).unwrap();
        assert!(short.starts_with("begin") && short.ends_with("end") && short.len() < MAX_SHOWN_OUTPUT + 60);
    }

    #[test]
    fn contents_of_files_share_one_budget() {
        let file = json!({"name": "a", "content": "x".repeat(MAX_SHOWN_FILES)});
        let report = json!({"stdout": "", "stderr": "", "output_files": [file, file, file],
            "warnings": vec!["w"; 100]});
        let text = shorten_report(report).to_string();
        assert!(text.len() < MAX_SHOWN_FILES + 2_000, "{}", text.len());
        assert!(text.contains("and 80 more warnings"));
    }

    #[test]
    fn a_report_that_was_cut_says_so_whatever_was_cut() {
        let report = |stdout: usize, stderr: usize, content: usize, warnings: usize| {
            let (stdout, stderr) = ("x".repeat(stdout), "x".repeat(stderr));
            let file = json!({"name": "a", "content": "x".repeat(content), "truncated": false});
            shorten_report(
                json!({"stdout": stdout, "stderr": stderr, "output_files": [file], "truncated": false,
                "warnings": vec!["w"; warnings]}),
            )
        };
        let (streams, files, warnings) = (MAX_SHOWN_OUTPUT, MAX_SHOWN_FILES, MAX_SHOWN_WARNINGS);
        let whole = report(streams, streams, files, warnings);
        assert_eq!(
            (&whole["truncated"], &whole["output_files"][0]["truncated"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(report(streams + 1, 0, 0, 0)["truncated"], true);
        assert_eq!(report(0, streams + 1, 0, 0)["truncated"], true);
        assert_eq!(report(0, 0, 0, warnings + 1)["truncated"], true);
        let cut = report(0, 0, files + 1, 0);
        assert_eq!((&cut["truncated"], &cut["output_files"][0]["truncated"]), (&json!(true), &json!(true)));
    }
}
