//! A limit of what a thread may cost.

use async_trait::async_trait;

use crate::agent::NextModel;
use crate::cost::{Price, Prices};
use crate::middleware::{Act, Jump, Middleware, Moment};
use crate::model::{Assembled, ModelError, ModelErrorKind};
use crate::run::Outcome;

const NAME: &str = "cost_limit";

/// A limit of what a thread may cost, as a part of an agent.
///
/// Before the model is asked it looks at what was paid so far, by sub-agents and for summaries too; once that has
/// reached the limit, the turn ends. So the last call may go beyond it, and so may sub-agents at work at the same time,
/// each of which has the limit for itself until it is done. A model without a price is not asked at all.
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

    /// Why a model must not be asked at all, if it must not.
    fn unpriced(&self, model: &str) -> Option<String> {
        let problem =
            || format!("there is a limit of ${} and no price for `{model}`: give it one", self.most);
        self.prices.of(model).is_none().then(problem)
    }

    /// Why a thread must not go on, if it must not.
    fn objection(&self, moment: Moment<'_>) -> Option<String> {
        let cost = self.prices.cost(moment.run.spent());
        if let Some(model) = cost.unpriced().first() {
            return self.unpriced(model);
        }
        let is_over = cost.micros() >= u128::from(self.most.micros());
        is_over
            .then(|| format!("the thread has cost {cost}, and may cost ${}", self.most))
            .or_else(|| self.unpriced(moment.model.name()))
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

    async fn wrap_model_call(&self, _: Moment<'_>, next: NextModel<'_>) -> Result<Assembled, ModelError> {
        // A skill may have chosen another one.
        match self.unpriced(next.model.name()) {
            Some(problem) => Err(ModelError::new(next.model.name(), ModelErrorKind::Invalid, problem)),
            None => next.ask().await,
        }
    }
}
