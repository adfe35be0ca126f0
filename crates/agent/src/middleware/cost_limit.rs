//! A limit of what a thread may cost, with all of its sub-agents.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use rust_decimal::Decimal;
use tokio::sync::Notify;

use crate::agent::{Agent, NextModel};
use crate::cost::{Cost, Price, Prices};
use crate::id::ThreadId;
use crate::middleware::{
    Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, MiddlewareFactory,
};
use crate::model::{ModelError, ModelErrorKind, ModelResponse, ModelUsage};
use crate::state::{AnyState, State, States};
use crate::thread_state::{StateChange, TurnOutcome};

const NAME: &str = "cost_limit";

/// A limit of what a thread may cost, as a part of an agent.
///
/// It covers the thread and its sub-agents, theirs included, and summaries. Before a model is asked it looks at what all
/// of them were paid so far; once that has reached the limit, the turn ends. Calls at the same time are expected to cost
/// as much as the dearest so far: one that could go beyond the limit with them waits until they are done. So no more than
/// the last call goes beyond it. A sub-agent with a limit of its own has that instead. A model without a price is not
/// asked at all.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use prowess_agent::middleware::CostLimit;
/// use prowess_agent::cost::ModelPrice;
/// use prowess_agent::Prices;
///
/// let price = ModelPrice::new("1.25".parse().unwrap(), "10".parse().unwrap());
/// let prices = Prices::try_from(BTreeMap::from([("openai:gpt-5*".to_owned(), price)])).unwrap();
/// let limit = CostLimit::new(prices, "2.50".parse().unwrap()); // dollars
/// ```
#[derive(Clone, Debug)]
pub struct CostLimit {
    prices: Prices,
    most: Price,
    /// By the thread that a person talks to.
    trees: Arc<Mutex<HashMap<ThreadId, Weak<Tree>>>>,
}

/// What a thread and its sub-agents cost.
#[derive(Debug, Default)]
struct Tree {
    counted: Mutex<Counted>,
    /// Is told whenever a call ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Counted {
    accounts: BTreeMap<ThreadId, Account>,
    /// How many calls there are now.
    calls: u64,
    /// What the dearest call cost.
    dearest: Option<Decimal>,
}

/// What a thread cost, with those of its sub-agents that it was told of.
#[derive(Debug, Default)]
struct Account {
    cost: Decimal,
    above: Vec<ThreadId>,
    /// Whether the thread above it has been told, and counts it from its next call on.
    is_told: bool,
}

/// What is to become of a call.
enum Verdict {
    /// It is made, and counts until this is dropped.
    Call(Reserved),
    /// Others decide whether it can be made.
    Wait,
    /// All was spent.
    Over(Decimal),
}

/// A call that is being made.
#[derive(Debug)]
struct Reserved(Arc<Tree>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.counted().calls -= 1;
        self.0.ended.notify_waiters();
    }
}

impl Tree {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdict(self: &Arc<Self>, most: Decimal) -> Verdict {
        let mut counted = self.counted();
        let total = counted.total();
        // Of calls about which nothing is known there is one at a time.
        let expected =
            counted.dearest.map_or(Decimal::MAX, |dearest| dearest.saturating_mul(counted.calls.into()));
        if total >= most {
            Verdict::Over(total)
        } else if counted.calls > 0 && total.saturating_add(expected) >= most {
            Verdict::Wait
        } else {
            counted.calls += 1;
            Verdict::Call(Reserved(Arc::clone(self)))
        }
    }
}

impl Counted {
    fn total(&self) -> Decimal {
        self.accounts.values().fold(Decimal::ZERO, |sum, account| sum.saturating_add(account.cost))
    }

    /// Notes what a thread cost by its own log, which has what its sub-agents told.
    fn note(&mut self, thread: &ThreadId, above: &[ThreadId], cost: Decimal) {
        self.accounts.retain(|_, account| !(account.is_told && account.above.contains(thread)));
        let account = Account { cost, above: above.to_vec(), is_told: false };
        self.accounts.insert(thread.clone(), account);
    }

    /// Adds what a call cost.
    fn pay(&mut self, thread: &ThreadId, cost: Decimal) {
        self.dearest = self.dearest.max(Some(cost));
        let account = self.accounts.entry(thread.clone()).or_default();
        account.cost = account.cost.saturating_add(cost);
    }
}

impl CostLimit {
    /// The most that a thread may cost, in dollars, by these prices.
    pub fn new(prices: Prices, most: Price) -> Self {
        Self { prices, most, trees: Arc::default() }
    }

    /// What the tree of this thread costs, whoever of it asks.
    fn tree(&self, root: &ThreadId) -> Arc<Tree> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees.get(root).and_then(Weak::upgrade) {
            return tree;
        }
        trees.retain(|_, tree| tree.strong_count() > 0);
        let tree = Arc::new(Tree::default());
        trees.insert(root.clone(), Arc::downgrade(&tree));
        tree
    }

    /// Why a model must not be asked at all, if it must not.
    fn unpriced(&self, model: &str) -> Option<String> {
        let problem =
            || format!("there is a limit of ${} and no price for `{model}`: give it one", self.most);
        self.prices.of(model).is_none().then(problem)
    }
}

/// The threads above a sub-agent's, from the one that a person talks to.
#[derive(Clone, Debug, Default)]
struct Above(Vec<ThreadId>);

impl State for Above {
    type Delta = Vec<ThreadId>;

    fn apply(&mut self, above: Vec<ThreadId>) {
        self.0 = above;
    }
}

#[async_trait]
impl MiddlewareFactory for CostLimit {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Above>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let above = states.get::<Above>(NAME).map(|above| above.0.clone()).unwrap_or_default();
        let tree = self.tree(above.first().unwrap_or(thread));
        Ok(Arc::new(Opened { limit: self.clone(), above, tree, reserved: Mutex::default() }))
    }
}

/// The limit in a thread.
#[derive(Debug)]
pub(super) struct Opened {
    limit: CostLimit,
    above: Vec<ThreadId>,
    tree: Arc<Tree>,
    /// Room for the call that is to be made.
    reserved: Mutex<Option<Reserved>>,
}

impl Opened {
    fn reserve(&self, reserved: Option<Reserved>) -> Option<Reserved> {
        std::mem::replace(&mut *self.reserved.lock().unwrap_or_else(PoisonError::into_inner), reserved)
    }

    /// The same limit for a sub-agent of this thread, unless it has one, and what its thread is to know.
    pub(super) fn over(&self, thread: &ThreadId, agent: Agent) -> (Agent, StateChange) {
        let above: Vec<ThreadId> = self.above.iter().chain([thread]).cloned().collect();
        let agent = if agent.has_part(NAME) { agent } else { agent.with_layer(Arc::new(self.limit.clone())) };
        (agent, StateChange::new::<Above>(NAME, &above))
    }

    /// Notes that what a sub-agent cost is in its answer.
    pub(super) fn told(&self, sub_agent: &ThreadId) {
        if let Some(account) = self.tree.counted().accounts.get_mut(sub_agent) {
            account.is_told = true;
        }
    }

    /// Waits until a call may be made. Why it must not, if it must not.
    async fn objection(&self, moment: MiddlewareContext<'_>) -> Option<String> {
        drop(self.reserve(None));
        let cost = self.limit.prices.cost(moment.run.spent());
        if let Some(model) = cost.unpriced().first() {
            return self.limit.unpriced(model);
        }
        self.tree.counted().note(moment.thread, &self.above, cost.dollars());
        let most = self.limit.most.dollars();
        loop {
            let ended = self.tree.ended.notified();
            tokio::pin!(ended);
            // From here on nothing is missed.
            ended.as_mut().enable();
            match self.tree.verdict(most) {
                Verdict::Over(total) => {
                    let cost = Cost::of_dollars(total);
                    return Some(format!("the thread has cost {cost}, and may cost ${}", self.limit.most));
                }
                Verdict::Wait => ended.await,
                Verdict::Call(reserved) => {
                    drop(self.reserve(Some(reserved)));
                    return self.limit.unpriced(moment.model.name());
                }
            }
        }
    }
}

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(
        &self,
        moment: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let end = |reason| MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason }));
        Ok(self.objection(moment).await.map(end).into_iter().collect())
    }

    async fn wrap_model_call(
        &self,
        moment: MiddlewareContext<'_>,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let reserved = self.reserve(None);
        // A skill may have chosen another one.
        if let Some(problem) = self.limit.unpriced(next.model.name()) {
            return Err(ModelError::new(next.model.name(), ModelErrorKind::Invalid, problem));
        }
        let answer = next.ask().await?;
        let cost = self.limit.prices.cost(&ModelUsage::on(answer.model.as_str(), answer.usage));
        // Paid before it is no longer expected.
        self.tree.counted().pay(moment.thread, cost.dollars());
        drop(reserved);
        Ok(answer)
    }

    async fn after_agent(
        &self,
        _: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        drop(self.reserve(None));
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ThreadId {
        name.parse().unwrap()
    }

    fn call(tree: &Arc<Tree>, most: u64) -> Option<Reserved> {
        match tree.verdict(most.into()) {
            Verdict::Call(reserved) => Some(reserved),
            Verdict::Wait | Verdict::Over(_) => None,
        }
    }

    #[test]
    fn calls_at_once_are_no_more_than_what_is_left() {
        let tree = Arc::new(Tree::default());
        let first = call(&tree, 5).expect("nothing was spent");
        assert!(call(&tree, 5).is_none(), "nobody knows what the first costs");
        tree.counted().pay(&id("root"), Decimal::ONE);
        drop(first);
        let calls: Vec<Reserved> = std::iter::from_fn(|| call(&tree, 5)).collect();
        assert_eq!(calls.len(), 4);
        for call in calls {
            tree.counted().pay(&id("sub"), Decimal::ONE);
            drop(call);
        }
        assert!(matches!(tree.verdict(5.into()), Verdict::Over(total) if total == 5.into()));
    }

    #[test]
    fn what_a_sub_agent_cost_counts_once() {
        let tree = Tree::default();
        let (root, sub, cut) = (id("root"), id("sub"), id("cut"));
        let mut counted = tree.counted();
        counted.note(&root, &[], 1.into());
        for each in [&sub, &cut] {
            counted.note(each, std::slice::from_ref(&root), 0.into());
            counted.pay(each, 2.into());
        }
        assert_eq!(counted.total(), 5.into());
        counted.accounts.get_mut(&sub).unwrap().is_told = true;
        assert_eq!(counted.total(), 5.into());
        counted.note(&root, &[], 3.into());
        assert_eq!(counted.total(), 5.into(), "the one that was cut off has told nobody");
    }
}
