//! A whole SKILL.md of any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prowess_catalog::skill::Location;
use prowess_catalog::{Severity, Skill, SkillName};

fuzz_target!(|source: &[u8]| {
    let parsed = Skill::parse(source, &Location::new("/skills/tide-tables/SKILL.md"));
    let failed = parsed.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(failed, parsed.skill.is_none());
    assert!(source.get(parsed.body.clone()).is_some());
    for found in &parsed.diagnostics {
        if let Some(span) = &found.span {
            assert!(span.start <= span.end && span.end <= source.len(), "{found}");
        }
        if let Some(fix) = &found.fix {
            assert!(fix.start <= fix.end && fix.end <= source.len(), "{found}");
        }
    }
    if let Some(skill) = parsed.skill {
        assert_eq!(SkillName::parse(skill.name.as_str()), Ok(skill.name));
    }
});
