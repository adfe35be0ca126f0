//! A limit of what a thread may cost.

use async_trait::async_trait;

use crate::cost::{Price, Prices};
use crate::middleware::{Act, Jump, Middleware, Moment};
use crate::run::Outcome;

const NAME: &str = "cost_limit";

/// A limit of what a thread may cost, as a part of an agent.
///
/// Before the model is asked it looks at what was paid so far, by sub-agents and for summaries too; once that has
/// reached the limit, the turn ends. So the last call may go beyond it. What a model without a price took cannot be
/// known, so a turn that would go on after it ends as well.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use prowess_agent::parts::CostLimit;
/// use prowess_agent::{ModelPrice, Prices};
///
/// let price = ModelPrice::new("1.25".parse().unwrap(), "10".parse().unwrap());
/// let prices = Prices::try_from(BTreeMap::from([("openai:gpt-5*".to_owned(), price)])).unwrap();
/// let limit = CostLimit::new(prices, "2.50".parse().unwrap()); // dollars
/// ```
#[derive(Clone, Debug)]
pub struct CostLimit {
    prices: Prices,
    most: Price,
}

impl CostLimit {
    /// The most that a thread may cost, in dollars, by these prices.
    pub fn new(prices: Prices, most: Price) -> Self {
        Self { prices, most }
    }

    /// Why a thread must not go on, if it must not.
    fn objection(&self, moment: Moment<'_>) -> Option<String> {
        let cost = self.prices.cost(moment.run.spent());
        if let Some(model) = cost.unpriced().first() {
            return Some(format!(
                "there is a limit of ${} and no price for `{model}`: nobody knows what it cost",
                self.most
            ));
        }
        let is_over = cost.micros() >= u128::from(self.most.micros());
        is_over.then(|| format!("the thread has cost {cost}, and may cost ${}", self.most))
    }
}

#[async_trait]
impl Middleware for CostLimit {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(&self, moment: Moment<'_>) -> Result<Vec<Act>, String> {
        let end = |reason| Act::Jump(Jump::End(Outcome::Stopped { reason }));
        Ok(self.objection(moment).map(end).into_iter().collect())
    }
}
