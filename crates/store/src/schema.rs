//! The tables, and how an older database gets them.

use crate::error::DatabaseError;

/// One text for each version, the first makes version 1. What was released is never changed.
const MIGRATIONS: &[&str] = &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// Which of the two databases a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "one text is for both"))]
    Postgres,
}

/// What is to be run on a database of version `found`, each with the version that it then has.
pub(crate) fn missing(
    place: &str,
    dialect: Dialect,
    found: i64,
) -> Result<impl Iterator<Item = (i64, String)>, DatabaseError> {
    let known = MIGRATIONS.len();
    match usize::try_from(found) {
        Ok(done) if done <= known => {
            let texts = MIGRATIONS.iter().zip(1..).skip(done);
            Ok(texts.map(move |(text, version)| (version, text_for(dialect, text))))
        }
        _ => Err(DatabaseError::Newer { place: place.to_owned(), found, known: known as u64 }),
    }
}

/// The text with the lines that are for this database alone.
fn text_for(dialect: Dialect, text: &str) -> String {
    let own = match dialect {
        Dialect::Sqlite => "-- sqlite:",
        Dialect::Postgres => "-- postgres:",
    };
    let mut result = String::with_capacity(text.len());
    for line in text.lines() {
        result.push_str(line.trim_start().strip_prefix(own).unwrap_or(line));
        result.push('\n');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_gets_its_own_lines() {
        let text = "a\n  -- sqlite: b\n-- postgres: c\n";
        assert_eq!(text_for(Dialect::Sqlite, text), "a\n b\n-- postgres: c\n");
        assert_eq!(text_for(Dialect::Postgres, text), "a\n  -- sqlite: b\n c\n");
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let count = |found| missing("x", Dialect::Sqlite, found).map(Iterator::count);
        assert_eq!(count(0).unwrap(), MIGRATIONS.len());
        assert_eq!(count(MIGRATIONS.len() as i64).unwrap(), 0);
        let newer = count(MIGRATIONS.len() as i64 + 1).unwrap_err().to_string();
        assert!(newer.contains("use a newer prowess"), "{newer}");
        assert!(count(-1).is_err());
    }
}
