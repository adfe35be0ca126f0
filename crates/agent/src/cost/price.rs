//! The price of tokens, as a person writes it.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many decimals a price has.
pub(super) const DECIMALS: u32 = 6;
/// The highest price: the largest 64-bit number of millionths of a dollar.
const MAX_PRICE: Decimal = Decimal::from_parts(u32::MAX, u32::MAX, 0, false, DECIMALS);

/// The price of a million tokens in dollars, with at most six decimals.
///
/// ```
/// use prowess_agent::cost::Price;
///
/// let price: Price = "3.75".parse().unwrap();
/// assert_eq!(price.to_string(), "3.75");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub(super) Decimal);

impl Price {
    /// The number as dollars, for limits. They are not per million tokens.
    pub(crate) fn dollars(self) -> Decimal {
        self.0
    }
}

/// Why a price or a list of prices is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The text is not an amount.
    #[error(
        "`{0}` is not a price: write dollars per million tokens, such as 0.15, with at most six decimals"
    )]
    Amount(String),
    /// A model's name has a `*` that is not at its end.
    #[error("`{0}`: a `*` can only be the last character of a model's name")]
    Pattern(String),
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let no_amount = || PriceError::Amount(text.chars().take(64).collect());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) {
            return Err(no_amount());
        }
        let plain = format!("{}.{}", whole.trim_start_matches('0'), decimals.trim_end_matches('0'));
        let amount = Decimal::from_str_exact(&format!("0{plain}0")).map_err(|_| no_amount())?.normalize();
        if amount.scale() > DECIMALS || amount > MAX_PRICE {
            return Err(no_amount());
        }
        Ok(Self(amount))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Price;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("dollars per million tokens")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Price, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }
            // The shortest text of a number is what the user wrote.
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_price_is_refused() {
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "1e3",
            "1.0000001",
            "nan",
            "1,5",
            "99999999999999999999",
            "18446744073709.551616",
            "1_000",
            "+1",
            " 1",
        ] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
        for (written, shown) in
            [("007.50", "7.5"), ("1.000000000", "1"), ("0.000001", "0.000001"), ("0", "0")]
        {
            assert_eq!(written.parse::<Price>().unwrap().to_string(), shown);
        }
        for zeros in [format!("{}3.0", "0".repeat(60)), format!("3.{}", "0".repeat(60))] {
            assert_eq!(zeros.parse::<Price>().unwrap().to_string(), "3");
        }
    }

    proptest! {
        /// A price is what the user wrote, also if a file has it as a number.
        #[test]
        fn prices_are_read_as_written(whole in 0_u32..100_000, decimals in 0_u32..1_000_000) {
            let written = format!("{whole}.{decimals:06}");
            let price: Price = written.parse().unwrap();
            let micros = i64::from(whole) * 1_000_000 + i64::from(decimals);
            prop_assert_eq!(price.0, Decimal::new(micros, DECIMALS));
            prop_assert_eq!(serde_json::from_str::<Price>(&written).unwrap(), price);
            prop_assert_eq!(price.to_string().parse::<Price>().unwrap(), price);
        }
    }
}
