//! `[compaction]`

use prowess_agent::middleware::{Keep, SummarisationOptions, Trigger, TruncateArguments};

use super::read::section;
use super::setting::{Setting, Whole, Wrong, text_of, words};

section! {
    /// When `prowess chat` summarises a conversation, and how much of it stays word for word. The message that you sent last
    /// always stays. A compaction that would free less than a tenth of the context window is not made, unless the next
    /// request fits only after it.
    pub(crate) struct CompactionSettings {
        /// When to summarise: at this part of the context window, this many tokens or this many messages. If the context
        /// window is unknown, a percentage means 170,000 tokens.
        All trigger: Length = "85%",
        /// How much of the end of the conversation stays. If the context window is unknown, a percentage means 6 messages.
        All keep: Length = "10%",
        /// Whether long arguments of old tool calls that write files are shortened in what the model sees. Each time, providers
        /// read the conversation again from there on.
        All truncate_arguments: Switch = "off",
        /// When to shorten arguments.
        All truncate_trigger: Length = "20 messages",
        /// The end of the conversation in which arguments stay whole.
        All truncate_keep: Length = "20 messages",
        /// The longest argument that stays whole, in characters.
        All truncate_max_length: Whole = 2000,
        /// The text that stands for the rest of an argument.
        All truncate_text: String = "...(argument truncated)",
    }
}

words! {
    /// Whether something is done.
    enum Switch { "on" = On, "off" = Off }
}

/// A length of a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    /// A part of the context window, from 0 to 1.
    Fraction(f64),
    Tokens(u64),
    Messages(usize),
}

impl Setting for Length {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        let form = || Wrong::Form("`85%`, `100000 tokens` or `200 messages`".to_owned());
        let text = text_of(value).map_err(|_| form())?;
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| form())?;
            let is_part = percent > 0.0 && percent <= 100.0;
            return if is_part { Ok(Self::Fraction(percent / 100.0)) } else { Err(form()) };
        }
        let (number, unit) = text.split_once(' ').ok_or_else(form)?;
        let number: u32 = number.parse().ok().filter(|number| *number > 0).ok_or_else(form)?;
        match unit.trim() {
            "tokens" | "token" => Ok(Self::Tokens(number.into())),
            "messages" | "message" => Ok(Self::Messages(usize::try_from(number).unwrap_or(usize::MAX))),
            _ => Err(form()),
        }
    }
}

impl From<Length> for Trigger {
    fn from(length: Length) -> Self {
        match length {
            Length::Fraction(part) => Self::Fraction(part),
            Length::Tokens(most) => Self::Tokens(most),
            Length::Messages(most) => Self::Messages(most),
        }
    }
}

impl From<Length> for Keep {
    fn from(length: Length) -> Self {
        match length {
            Length::Fraction(part) => Self::Fraction(part),
            Length::Tokens(most) => Self::Tokens(most),
            Length::Messages(most) => Self::Messages(most),
        }
    }
}

impl CompactionSettings {
    /// The options of the agent.
    pub(crate) fn options(&self) -> SummarisationOptions {
        let mut options = SummarisationOptions::default();
        (options.trigger, options.keep) = (Some(self.trigger.into()), Some(self.keep.into()));
        options.truncate_arguments = (self.truncate_arguments == Switch::On).then(|| {
            let mut truncate = TruncateArguments::default();
            (truncate.trigger, truncate.keep) = (self.truncate_trigger.into(), self.truncate_keep.into());
            truncate.max_length = self.truncate_max_length.size();
            truncate.truncation_text.clone_from(&self.truncate_text);
            truncate
        });
        options
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lengths_have_a_unit() {
        let read = |text: &str| Length::read(&json!(text)).ok();
        assert_eq!(read("85%"), Some(Length::Fraction(0.85)));
        assert_eq!(read("12.5 %"), Some(Length::Fraction(0.125)));
        assert_eq!(read("100000 tokens"), Some(Length::Tokens(100_000)));
        assert_eq!(read("1 message"), Some(Length::Messages(1)));
        for wrong in ["", "85", "0%", "101%", "-1%", "NaN%", "0 tokens", "many tokens", "5 pages", "tokens"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(Length::read(&json!(0.85)).is_err());
    }

    #[test]
    fn the_defaults_are_those_of_the_agent_and_keep_the_conversation() {
        let mut settings = crate::config::Settings::built_in().unwrap();
        let mut expected = SummarisationOptions::default();
        (expected.trigger, expected.keep) = (Some(Trigger::DEFAULT), Some(Keep::DEFAULT));
        assert_eq!(settings.compaction.options().truncate_arguments, None);
        settings.compaction.truncate_arguments = Switch::On;
        assert_eq!(settings.compaction.options(), expected);
    }
}
