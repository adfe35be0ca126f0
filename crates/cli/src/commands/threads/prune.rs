//! `prowess threads prune`

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;

use super::RemovalArgs;
use super::rm::{confirm_removal, remove_all};
use crate::commands::CommandOutcome;
use crate::confirm::confirm;
use crate::terminal::{Terminal, count};
use crate::threads;

pub(super) async fn prune(
    older_than: Duration,
    removal: &RemovalArgs,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let Some((state, store)) = threads::open_store().await? else {
        writeln!(terminal, "There is nothing to remove.")?;
        return Ok(CommandOutcome::Done);
    };
    let old = threads::unchanged_for(&store, older_than).await?;
    let storage = removal.storage(state, store)?;
    if !old.is_empty() {
        if !confirm_removal(&storage, &old, removal.yes, terminal).await? {
            return Ok(CommandOutcome::Findings);
        }
        let outcome = remove_all(&storage, &old, terminal).await?;
        let leftovers = storage.leftovers(older_than).await?;
        storage.discard(&leftovers).await;
        return Ok(outcome);
    }
    let leftovers = storage.leftovers(older_than).await?;
    if leftovers.count() == 0 {
        writeln!(terminal, "There is nothing to remove.")?;
        return Ok(CommandOutcome::Done);
    }
    let what = format!("{} of conversations that are gone or empty", count(leftovers.count(), "leftover"));
    if !removal.yes && !confirm(&format!("Remove {what}?"))? {
        writeln!(terminal, "Nothing was removed.")?;
        return Ok(CommandOutcome::Findings);
    }
    let gone = storage.discard(&leftovers).await;
    writeln!(terminal, "{gone} of {what} removed")?;
    Ok(CommandOutcome::Done)
}

/// Parses an age: a number and its unit.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let expected = || "write a number and m, h, d or w: 12h, 30d, 8w".to_owned();
    let unit = text.chars().next_back().ok_or_else(expected)?;
    let seconds: u64 = match unit {
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(expected()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!([age("12h"), age("0m")], [Ok(Duration::from_secs(43_200)), Ok(Duration::ZERO)]);
        for wrong in ["", "30", "d", "-3d", "3y", "1.5h", "3 d", "3é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
