//! What tokens cost: prices by model, and sums that are exact.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{ModelUsage, Usage};

/// How many decimals a price has.
const DECIMALS: usize = 6;
/// The parts of a dollar in which costs are summed: a millionth of a dollar for a million tokens is one of them for
/// each token.
const PARTS: u128 = 1_000_000_000_000;
/// The parts in the last decimal that is shown.
const SHOWN: u128 = PARTS / 10_000;

/// What a million tokens cost, in dollars, with six decimals at most.
///
/// ```
/// use prowess_agent::cost::Price;
///
/// let price: Price = "3.75".parse().unwrap();
/// assert_eq!(price.to_string(), "3.75");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

impl Price {
    /// The price as an amount in the parts that costs are summed in.
    pub(crate) fn parts(self) -> u128 {
        u128::from(self.0) * (PARTS / 1_000_000)
    }
}

/// Why something is no price, or no list of prices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// It is no amount.
    #[error("`{0}` is no price: write dollars for a million tokens, such as 0.15, with six decimals at most")]
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
        let kept = decimals.trim_end_matches('0');
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || kept.len() > DECIMALS {
            return Err(no_amount());
        }
        format!("{whole}{kept:0<DECIMALS$}").parse().map(Self).map_err(|_| no_amount())
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u64.pow(6);
        let decimals = format!("{:06}", self.0 % unit);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / unit),
            decimals => write!(f, "{}.{decimals}", self.0 / unit),
        }
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
                f.write_str("dollars for a million tokens")
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
            // The shortest text that is this number is what someone wrote.
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

/// What a model's tokens cost.
///
/// ```
/// use std::collections::BTreeMap;
/// use prowess_agent::cost::ModelPrice;
/// use prowess_agent::model::ModelUsage;
/// use prowess_agent::{Prices, Usage};
///
/// let price = ModelPrice::new("1.25".parse()?, "10".parse()?); // dollars for a million tokens
/// let prices = Prices::try_from(BTreeMap::from([("openai:gpt-5*".to_owned(), price)]))?;
/// let usage = Usage { input: 1_000_000, output: 100_000, ..Usage::default() };
/// let cost = prices.cost(&ModelUsage::on("openai:gpt-5.1", usage));
/// assert_eq!(cost.micros(), 2_250_000);
/// # Ok::<(), prowess_agent::cost::PriceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Tokens that it reads.
    pub input: Price,
    /// Tokens that it says.
    pub output: Price,
    /// Tokens that it reads from its provider's cache; as other input when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Price>,
    /// Tokens that it reads and that are put into the cache; as other input when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<Price>,
}

impl ModelPrice {
    /// The same price for input from the cache, into it, and past it.
    pub fn new(input: Price, output: Price) -> Self {
        Self { input, output, cache_read: None, cache_written: None }
    }

    fn parts(&self, usage: Usage) -> u128 {
        // Cached tokens are among those read. A provider that counts them apart does not make others free.
        let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_written);
        let cost = |tokens: u64, price: Price| u128::from(tokens) * u128::from(price.0);
        cost(plain, self.input)
            .saturating_add(cost(usage.output, self.output))
            .saturating_add(cost(usage.cache_read, self.cache_read.unwrap_or(self.input)))
            .saturating_add(cost(usage.cache_written, self.cache_written.unwrap_or(self.input)))
    }
}

/// Prices by the names of models. A name that ends with `*` is for all that begin so; the longest that fits counts, and
/// one without `*` before all others.
///
/// ```
/// use prowess_agent::Prices;
///
/// let prices: Prices = serde_json::from_str(
///     r#"{
///         "anthropic:claude-sonnet-*": {"input": 3, "output": 15, "cache_read": 0.3, "cache_written": 3.75},
///         "openai:local": {"input": 0, "output": 0}
///     }"#,
/// )
/// .unwrap();
/// assert!(prices.of("anthropic:claude-sonnet-4-6").is_some());
/// assert!(prices.of("anthropic:claude-opus-4-6").is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, ModelPrice>", into = "BTreeMap<String, ModelPrice>")]
pub struct Prices(BTreeMap<String, ModelPrice>);

impl TryFrom<BTreeMap<String, ModelPrice>> for Prices {
    type Error = PriceError;

    fn try_from(prices: BTreeMap<String, ModelPrice>) -> Result<Self, PriceError> {
        match prices.keys().find(|name| name.strip_suffix('*').unwrap_or(name).contains('*')) {
            Some(name) => Err(PriceError::Pattern(name.clone())),
            None => Ok(Self(prices)),
        }
    }
}

impl From<Prices> for BTreeMap<String, ModelPrice> {
    fn from(prices: Prices) -> Self {
        prices.0
    }
}

impl Prices {
    /// The price of a model.
    pub fn of(&self, model: &str) -> Option<&ModelPrice> {
        let begins = self.0.iter().filter_map(|(name, price)| {
            let begin = name.strip_suffix('*')?;
            model.starts_with(begin).then_some((begin.len(), price))
        });
        self.0.get(model).or_else(|| begins.max_by_key(|(length, _)| *length).map(|(_, price)| price))
    }

    /// What was spent costs. Models that have no price are named, and not in the sum.
    pub fn cost(&self, spent: &ModelUsage) -> Cost {
        let mut cost = Cost::default();
        for (model, usage) in spent.iter().filter(|(_, usage)| *usage != Usage::default()) {
            match self.of(model) {
                Some(price) => cost.parts = cost.parts.saturating_add(price.parts(usage)),
                None => cost.unpriced.push(model.to_owned()),
            }
        }
        cost
    }
}

/// What tokens cost, as far as their prices are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In millionths of a millionth of a dollar.
    parts: u128,
    unpriced: Vec<String>,
}

impl Cost {
    pub(crate) fn of_parts(parts: u128) -> Self {
        Self { parts, unpriced: Vec::new() }
    }

    /// The sum in the parts of a dollar that are exact.
    pub(crate) fn parts(&self) -> u128 {
        self.parts
    }

    /// The sum in millionths of a dollar, rounded up.
    pub fn micros(&self) -> u128 {
        self.parts.div_ceil(1_000_000)
    }

    /// The models that were paid and have no price: the sum is without them.
    pub fn unpriced(&self) -> &[String] {
        &self.unpriced
    }

    /// Whether it is all that was spent.
    pub fn is_whole(&self) -> bool {
        self.unpriced.is_empty()
    }
}

/// Dollars with four decimals, and the models that are not in the sum.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = self.parts.saturating_add(SHOWN / 2) / SHOWN;
        if self.parts > 0 && rounded == 0 {
            f.write_str("less than $0.0001")?;
        } else {
            write!(f, "${}.{:04}", rounded / 10_000, rounded % 10_000)?;
        }
        if !self.is_whole() {
            write!(f, ", without {}: no price is known", self.unpriced.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRICES: &str = r#"
        ["anthropic:claude-sonnet-*"]
        input = 3
        output = 15.0
        cache_read = 0.3
        cache_written = "3.75"

        ["anthropic:*"]
        input = 10
        output = 50

        ["anthropic:claude-sonnet-old"]
        input = 1
        output = 1
    "#;

    fn prices() -> Prices {
        toml::from_str(PRICES).unwrap()
    }

    fn spent(model: &str, input: u64, output: u64, cache_read: u64, cache_written: u64) -> ModelUsage {
        ModelUsage::on(model, Usage { input, output, cache_read, cache_written })
    }

    #[test]
    fn the_name_that_says_most_counts() {
        let prices = prices();
        let input = |model| prices.of(model).map(|price| price.input.to_string());
        assert_eq!(input("anthropic:claude-sonnet-4-6").as_deref(), Some("3"));
        assert_eq!(input("anthropic:claude-sonnet-old").as_deref(), Some("1"));
        assert_eq!(input("anthropic:claude-opus-4-6").as_deref(), Some("10"));
        assert_eq!(input("openai:gpt"), None);
    }

    #[test]
    fn cached_tokens_have_their_own_price() {
        // 1,000 past the cache, 8,000 from it, 1,000 into it, 500 said.
        let cost = prices().cost(&spent("anthropic:claude-sonnet-4-6", 10_000, 500, 8_000, 1_000));
        assert_eq!(cost.micros(), 3_000 + 2_400 + 3_750 + 7_500);
        assert_eq!(cost.to_string(), "$0.0167");
        let same = prices().cost(&spent("anthropic:other", 10_000, 0, 8_000, 1_000));
        assert_eq!(same.to_string(), "$0.1000", "without a price of its own the cache costs as other input");
    }

    #[test]
    fn what_has_no_price_is_named_and_not_free() {
        let mut both = spent("anthropic:claude-sonnet-4-6", 1_000_000, 0, 0, 0);
        both += &spent("openai:gpt", 5, 5, 0, 0);
        both += &spent("middleware", 0, 0, 0, 0);
        let cost = prices().cost(&both);
        assert_eq!(cost.unpriced(), ["openai:gpt"]);
        assert!(!cost.is_whole());
        assert_eq!(cost.to_string(), "$3.0000, without openai:gpt: no price is known");
    }

    #[test]
    fn a_little_is_not_nothing() {
        let cost = prices().cost(&spent("anthropic:claude-sonnet-4-6", 1, 0, 0, 0));
        assert_eq!((cost.to_string().as_str(), cost.micros()), ("less than $0.0001", 3));
        assert_eq!(Cost::default().to_string(), "$0.0000");
    }

    #[test]
    fn sums_do_not_overflow() {
        let huge = u64::MAX.to_string();
        let (whole, decimals) = huge.split_at(huge.len() - DECIMALS);
        let price: Price = format!("{whole}.{decimals}").parse().unwrap();
        let prices =
            Prices::try_from(BTreeMap::from([("*".to_owned(), ModelPrice::new(price, price))])).unwrap();
        let most = spent("x", u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        assert!(prices.cost(&most).to_string().starts_with('$'));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for wrong in
            ["", ".", "1.", ".5", "-1", "1e3", "1.0000001", "nan", "1,5", "99999999999999999999", "+1", " 1"]
        {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
        for wrong in [
            "[m]\ninput = -1\noutput = 1",
            "[m]\ninput = nan\noutput = 1",
            "[m]\ninput = 1",
            "[m]\ninput = 1\noutput = 1\ncached = 1",
            "[\"a*b\"]\ninput = 1\noutput = 1",
        ] {
            assert!(toml::from_str::<Prices>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// A price is what was written, also where a file has it as a number.
        #[test]
        fn prices_are_read_as_written(whole in 0_u32..100_000, decimals in 0_u32..1_000_000) {
            let written = format!("{whole}.{decimals:06}");
            let price: Price = written.parse().unwrap();
            prop_assert_eq!(price.0, u64::from(whole) * 1_000_000 + u64::from(decimals));
            prop_assert_eq!(serde_json::from_str::<Price>(&written).unwrap(), price);
            prop_assert_eq!(price.to_string().parse::<Price>().unwrap(), price);
        }

        /// What is spent in two threads costs what it costs in one.
        #[test]
        fn sums_are_exact(one in 0_u64..1 << 40, other in 0_u64..1 << 40, price in 0_u64..1 << 40) {
            let price = Price(price);
            let prices = Prices(BTreeMap::from([("*".to_owned(), ModelPrice::new(price, price))]));
            let parts = |input, output| prices.cost(&spent("m", input, output, 0, 0)).parts;
            prop_assert_eq!(parts(one, 0) + parts(0, other), parts(one, other));
        }
    }
}
