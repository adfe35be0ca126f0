//! Migrations: the tables, and how an older database gets them.
//!
//! Each version has one SQL file, for SQLite and PostgreSQL. To change the tables, add a file. A released file never
//! changes.

use crate::error::DatabaseError;

/// The SQL of each version. The first file makes version 1.
const MIGRATIONS: &[&str] = &[
    include_str!("1.sql"),
    include_str!("2.sql"),
    include_str!("3.sql"),
    include_str!("4.sql"),
    include_str!("5.sql"),
    include_str!("6.sql"),
    include_str!("7.sql"),
    include_str!("8.sql"),
    include_str!("9.sql"),
    include_str!("10.sql"),
    include_str!("11.sql"),
    include_str!("12.sql"),
    include_str!("13.sql"),
    include_str!("14.sql"),
];

/// The database that SQL is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlDialect {
    Sqlite,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "one file is for both"))]
    Postgres,
}

/// The version of the newest tables that this program knows.
pub(crate) const KNOWN: usize = MIGRATIONS.len();

/// The migrations that a database of version `found` needs, each with the version that it makes.
pub(crate) fn missing(
    place: &str,
    dialect: SqlDialect,
    found: i64,
) -> Result<impl Iterator<Item = (i64, String)>, DatabaseError> {
    match usize::try_from(found) {
        Ok(done) if done <= KNOWN => {
            let texts = MIGRATIONS.iter().zip(1..).skip(done);
            Ok(texts.map(move |(text, version)| (version, text_for(dialect, text))))
        }
        _ => Err(newer(place, found)),
    }
}

/// The error of a database that is too new for this program.
pub(crate) fn newer(place: &str, found: i64) -> DatabaseError {
    DatabaseError::Newer { place: place.to_owned(), found, known: KNOWN as u64 }
}

/// How a file begins whose text is only for PostgreSQL.
const ONLY_POSTGRES: &str = "-- Only for PostgreSQL.\n";

/// The SQL for one database. Lines that start with `-- sqlite:` or `-- postgres:` are only for that one.
fn text_for(dialect: SqlDialect, text: &str) -> String {
    if dialect == SqlDialect::Sqlite && text.starts_with(ONLY_POSTGRES) {
        return String::new();
    }
    let own = match dialect {
        SqlDialect::Sqlite => "-- sqlite:",
        SqlDialect::Postgres => "-- postgres:",
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
        assert_eq!(text_for(SqlDialect::Sqlite, text), "a\n b\n-- postgres: c\n");
        assert_eq!(text_for(SqlDialect::Postgres, text), "a\n  -- sqlite: b\n c\n");
    }

    #[test]
    fn a_file_for_postgres_is_nothing_to_sqlite() {
        let text = format!("{ONLY_POSTGRES}a\n");
        assert_eq!(text_for(SqlDialect::Sqlite, &text), "");
        assert_eq!(text_for(SqlDialect::Postgres, &text), text);
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let count = |found| missing("x", SqlDialect::Sqlite, found).map(Iterator::count);
        assert_eq!(count(0).unwrap(), MIGRATIONS.len());
        assert_eq!(count(MIGRATIONS.len() as i64).unwrap(), 0);
        let newer = count(MIGRATIONS.len() as i64 + 1).unwrap_err().to_string();
        assert!(newer.contains("use a newer prowess"), "{newer}");
        assert!(count(-1).is_err());
    }
}
