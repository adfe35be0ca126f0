//! What tokens cost: prices by model, and exact sums.

use std::collections::BTreeMap;
use std::fmt;

use rust_decimal::prelude::ToPrimitive as _;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

use crate::model::{ModelUsage, Usage};

mod price;

pub use self::price::{Price, PriceError};

/// A millionth.
const MILLIONTH: Decimal = Decimal::from_parts(1, 0, 0, false, 6);
/// How many decimals of a cost are printed.
const PRINTED_DECIMALS: u32 = 4;

/// The prices of a model's tokens.
///
/// ```
/// use std::collections::BTreeMap;
/// use prowess_agent::cost::ModelPrice;
/// use prowess_agent::model::ModelUsage;
/// use prowess_agent::{Prices, Usage};
///
/// let price = ModelPrice::new("1.25".parse()?, "10".parse()?); // dollars per million tokens
/// let prices = Prices::try_from(BTreeMap::from([("openai:gpt-5*".to_owned(), price)]))?;
/// let usage = Usage::new(1_000_000, 100_000);
/// let cost = prices.cost(&ModelUsage::on("openai:gpt-5.1", usage));
/// assert_eq!(cost.micros(), 2_250_000);
/// # Ok::<(), prowess_agent::cost::PriceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelPrice {
    /// The price of input tokens.
    pub input: Price,
    /// The price of output tokens.
    pub output: Price,
    /// The price of input tokens from the provider's cache. Default: the price of other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Price>,
    /// The price of input tokens that the provider adds to its cache. Default: the price of other input.
    #[serde(default, alias = "cache_written", skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Price>,
}

impl ModelPrice {
    /// Prices without special prices for the cache.
    pub fn new(input: Price, output: Price) -> Self {
        Self { input, output, cache_read: None, cache_write: None }
    }

    fn dollars(&self, usage: Usage) -> Decimal {
        // Input includes cached tokens. If a provider counts them separately, the other tokens still cost something.
        let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_written);
        let cost =
            |tokens: u64, price: Price| (Decimal::from(tokens) * MILLIONTH).saturating_mul(price.dollars());
        cost(plain, self.input)
            .saturating_add(cost(usage.output, self.output))
            .saturating_add(cost(usage.cache_read, self.cache_read.unwrap_or(self.input)))
            .saturating_add(cost(usage.cache_written, self.cache_write.unwrap_or(self.input)))
    }
}

/// Prices by the names of models. A name that ends with `*` is a prefix. An exact name wins over prefixes, and a longer
/// prefix over a shorter one.
///
/// ```
/// use prowess_agent::Prices;
///
/// let prices: Prices = serde_json::from_str(
///     r#"{
///         "anthropic:claude-sonnet-*": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
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

    /// The cost of the used tokens. The sum leaves out models without a price and lists them.
    pub fn cost(&self, spent: &ModelUsage) -> Cost {
        let mut cost = Cost::default();
        for (model, usage) in spent.iter().filter(|(_, usage)| *usage != Usage::default()) {
            match self.of(model) {
                Some(price) => cost.dollars = cost.dollars.saturating_add(price.dollars(usage)),
                None => cost.unpriced.push(model.to_owned()),
            }
        }
        cost
    }
}

/// The cost of tokens, as far as their prices are known. A sum is exact up to about 79 quadrillion dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    dollars: Decimal,
    unpriced: Vec<String>,
}

impl Cost {
    pub(crate) fn of_dollars(dollars: Decimal) -> Self {
        Self { dollars, unpriced: Vec::new() }
    }

    /// The exact sum.
    pub(crate) fn dollars(&self) -> Decimal {
        self.dollars
    }

    /// The sum in millionths of a dollar, rounded up.
    pub fn micros(&self) -> u128 {
        let micros = self.dollars.saturating_mul(Decimal::from(1_000_000));
        micros.ceil().to_u128().unwrap_or(u128::MAX)
    }

    /// The models that were used and have no price. The sum leaves them out.
    pub fn unpriced(&self) -> &[String] {
        &self.unpriced
    }

    /// Whether the sum includes all models.
    pub fn is_whole(&self) -> bool {
        self.unpriced.is_empty()
    }
}

/// Dollars with four decimals, and the models that are not in the sum.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half_up = RoundingStrategy::MidpointAwayFromZero;
        let mut rounded = self.dollars.round_dp_with_strategy(PRINTED_DECIMALS, half_up);
        // A large amount may get fewer decimals. A precision in the format would panic on the highest amount.
        rounded.rescale(PRINTED_DECIMALS);
        if rounded.is_zero() && !self.dollars.is_zero() {
            f.write_str("less than $0.0001")?;
        } else {
            write!(f, "${rounded}")?;
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

    use super::price::DECIMALS;
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
        // 1,000 without the cache, 8,000 from it, 1,000 into it, 500 output.
        let cost = prices().cost(&spent("anthropic:claude-sonnet-4-6", 10_000, 500, 8_000, 1_000));
        assert_eq!(cost.micros(), 3_000 + 2_400 + 3_750 + 7_500);
        assert_eq!(cost.to_string(), "$0.0167");
        let same = prices().cost(&spent("anthropic:other", 10_000, 0, 8_000, 1_000));
        assert_eq!(
            same.to_string(),
            "$0.1000",
            "without its own price, the cache costs the same as other input"
        );
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
        let (whole, decimals) = huge.split_at(huge.len() - DECIMALS as usize);
        let price: Price = format!("{whole}.{decimals}").parse().unwrap();
        let prices =
            Prices::try_from(BTreeMap::from([("*".to_owned(), ModelPrice::new(price, price))])).unwrap();
        let most = spent("x", u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        assert!(prices.cost(&most).to_string().starts_with('$'));
    }

    #[test]
    fn wrong_lists_of_prices_are_refused() {
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
        /// Tokens cost the same in two threads as in one.
        #[test]
        fn sums_are_exact(one in 0_u64..1 << 40, other in 0_u64..1 << 40, price in 0_i64..1 << 40) {
            let expected = u128::from(one + other) * price.unsigned_abs() as u128;
            let price = Price(Decimal::new(price, DECIMALS));
            let prices = Prices(BTreeMap::from([("*".to_owned(), ModelPrice::new(price, price))]));
            let dollars = |input, output| prices.cost(&spent("m", input, output, 0, 0)).dollars;
            prop_assert_eq!(dollars(one, 0) + dollars(0, other), dollars(one, other));
            // In millionths of a millionth of a dollar, every cost is a whole number.
            let exact = Decimal::from_i128_with_scale(i128::try_from(expected).unwrap(), 12);
            prop_assert_eq!(dollars(one, other), exact);
        }
    }
}
