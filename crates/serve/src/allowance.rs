//! How much a user may still take today.

use prowess_store::serve::{DailyLimits, OwnedThreadError, UsageSum, User};

use crate::app::App;

impl App {
    /// How much a user may use in a day: the user's own limits, or those of the server.
    pub(crate) fn daily_limits(&self, user: &User) -> DailyLimits {
        user.daily.or(self.limits.daily)
    }

    /// Why a user may take no more today. `None` if there is something left. `is_unpriced`: the price of a model that was just
    /// called is not known.
    pub(crate) async fn used_up(
        &self,
        user: &User,
        is_unpriced: bool,
    ) -> Result<Option<String>, OwnedThreadError> {
        if self.daily_limits(user) == DailyLimits::default() {
            return Ok(None);
        }
        let today = self.threads.usage(&user.id).await?.today;
        Ok(self.used_up_by(user, today, is_unpriced))
    }

    /// The same if the user used so much today.
    pub(crate) fn used_up_by(&self, user: &User, today: UsageSum, is_unpriced: bool) -> Option<String> {
        let limits = self.daily_limits(user);
        if let Some(most) = limits.tokens.filter(|most| today.tokens >= *most) {
            return Some(format!("You have reached your limit of {most} tokens for today. {TOMORROW}"));
        }
        let most = limits.micro_dollars?;
        if today.micro_dollars >= most {
            let most = dollars(most);
            return Some(format!("You have reached your limit of ${most} for today. {TOMORROW}"));
        }
        // Without a price, nobody would notice when the limit is reached.
        let is_priced = !is_unpriced && self.agents.has_price(&self.model);
        (!is_priced).then(|| {
            "You have a limit of cost, but the server does not know the price of a model. Tell your administrator."
                .to_owned()
        })
    }
}

/// When a limit begins again.
const TOMORROW: &str = "The limit resets at midnight UTC.";

/// An amount in dollars, with cents at least.
///
/// ```
/// assert_eq!(prowess_serve::dollars(2_500_000), "2.50");
/// ```
pub fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let needed = text.trim_end_matches('0').len().max(text.len() - 4);
    text[..needed].to_owned()
}

/// An amount of dollars that somebody wrote, in millionths.
///
/// ```
/// assert_eq!(prowess_serve::micro_dollars("2.50"), Some(2_500_000));
/// assert_eq!(prowess_serve::micro_dollars("-1"), None);
/// ```
pub fn micro_dollars(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 6 {
        return None;
    }
    let micros: u64 = format!("{part:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_as_they_are_written() {
        for (text, micros) in [("0.00", 0), ("2.50", 2_500_000), ("0.000001", 1), ("12.345", 12_345_000)] {
            assert_eq!(micro_dollars(text), Some(micros));
            assert_eq!(dollars(micros), text);
        }
        assert_eq!(micro_dollars("3"), Some(3_000_000));
        for wrong in ["", ".5", "-1", "1e3", "1.0000001", "1,5", "$1", " 1", "18446744073709551615"] {
            assert_eq!(micro_dollars(wrong), None, "{wrong}");
        }
    }
}
