//! Words that mix Latin letters with Cyrillic or Greek letters that look like Latin ones.

use super::kind::HiddenKind;
use super::{Findings, Line};

/// Cyrillic letters that look like Latin ones.
const CYRILLIC: &str = "аеорсухіјѕһԁԛԝԍѵпгтвкмАВЕЗКМНОРСТУХІЈЅԌԚԜѴ";
/// Greek letters that look like Latin ones. Those that formulas use, such as `α` and `μ`, are not among them.
const GREEK: &str = "ονρυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ";

pub(super) fn scan(line: Line<'_>, findings: &mut Findings<'_>) {
    if line.text.is_ascii() {
        return;
    }
    for word in line.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_ascii()) {
        let is_latin = |c: char| c.is_ascii_alphabetic();
        let is_fake = |c: char| CYRILLIC.contains(c) || GREEK.contains(c);
        if word.chars().any(is_latin) && word.chars().any(is_fake) {
            let at = word.as_ptr() as usize - line.text.as_ptr() as usize;
            let escaped = |c: char| if is_fake(c) { c.escape_unicode().collect() } else { vec![c] };
            findings.add(line, at, HiddenKind::LookAlike, || word.chars().flat_map(escaped).collect());
        }
    }
}
