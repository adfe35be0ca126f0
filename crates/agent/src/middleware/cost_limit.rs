//! The cost limit: the most that a thread and its sub-agents may cost.

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

/// Limits what a thread may cost, in dollars.
///
/// The limit covers the thread, its sub-agents and their sub-agents, and summaries. Before each model call, the middleware
/// adds up what all of them have cost. If that has reached the limit, the turn ends.
///
/// Model calls that run at the same time are each expected to cost as much as the most expensive call so far. A call that
/// could exceed the limit waits until the others are done. So only the last call can exceed the limit.
///
/// A sub-agent with its own limit has that one instead. A model without a price is not called at all.
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
    /// By the root thread of each tree: the one that a person talks to.
    trees: Arc<Mutex<HashMap<ThreadId, Weak<ThreadTree>>>>,
}

/// A thread with all its sub-agents, and what they cost.
#[derive(Debug, Default)]
struct ThreadTree {
    costs: Mutex<TreeCosts>,
    /// Notified whenever a call ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct TreeCosts {
    accounts: BTreeMap<ThreadId, Account>,
    /// How many calls run now.
    calls: u64,
    /// The cost of the most expensive call.
    highest_cost: Option<Decimal>,
}

/// What a thread cost, including the sub-agents whose cost is in its log.
#[derive(Debug, Default)]
struct Account {
    cost: Decimal,
    above: Vec<ThreadId>,
    /// Whether the parent's log has this cost. The parent includes it from its next call on.
    is_in_parent: bool,
}

/// Whether a model call may be made.
enum Permit {
    /// It may, and counts as running until this is dropped.
    Call(RunningCall),
    /// It has to wait for running calls.
    Wait,
    /// The limit is reached. This is the total cost.
    OverLimit(Decimal),
}

/// A call that runs.
#[derive(Debug)]
struct RunningCall(Arc<ThreadTree>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.costs().calls -= 1;
        self.0.ended.notify_waiters();
    }
}

impl ThreadTree {
    fn costs(&self) -> MutexGuard<'_, TreeCosts> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, most: Decimal) -> Permit {
        let mut costs = self.costs();
        let total = costs.total();
        // Until the cost of one call is known, calls run one at a time.
        let expected = costs
            .highest_cost
            .map_or(Decimal::MAX, |highest_cost| highest_cost.saturating_mul(costs.calls.into()));
        if total >= most {
            Permit::OverLimit(total)
        } else if costs.calls > 0 && total.saturating_add(expected) >= most {
            Permit::Wait
        } else {
            costs.calls += 1;
            Permit::Call(RunningCall(Arc::clone(self)))
        }
    }
}

impl TreeCosts {
    fn total(&self) -> Decimal {
        self.accounts.values().fold(Decimal::ZERO, |sum, account| sum.saturating_add(account.cost))
    }

    /// Sets what a thread cost, by its log. The log includes sub-agents that have ended.
    fn set(&mut self, thread: &ThreadId, above: &[ThreadId], cost: Decimal) {
        self.accounts.retain(|_, account| !(account.is_in_parent && account.above.contains(thread)));
        let account = Account { cost, above: above.to_vec(), is_in_parent: false };
        self.accounts.insert(thread.clone(), account);
    }

    /// Adds the cost of a call.
    fn add(&mut self, thread: &ThreadId, cost: Decimal) {
        self.highest_cost = self.highest_cost.max(Some(cost));
        let account = self.accounts.entry(thread.clone()).or_default();
        account.cost = account.cost.saturating_add(cost);
    }
}

impl CostLimit {
    /// Limits each thread to `most` dollars, by these prices.
    pub fn new(prices: Prices, most: Price) -> Self {
        Self { prices, most, trees: Arc::default() }
    }

    /// The tree of this root thread, which all its threads share.
    fn tree(&self, root: &ThreadId) -> Arc<ThreadTree> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees.get(root).and_then(Weak::upgrade) {
            return tree;
        }
        trees.retain(|_, tree| tree.strong_count() > 0);
        let tree = Arc::new(ThreadTree::default());
        trees.insert(root.clone(), Arc::downgrade(&tree));
        tree
    }

    /// Why a model must not be called, if it has no price.
    fn unpriced(&self, model: &str) -> Option<String> {
        let problem = || format!("the cost limit of ${} needs a price for `{model}`: add one", self.most);
        self.prices.of(model).is_none().then(problem)
    }
}

/// The threads above a sub-agent's thread, from the root on.
#[derive(Clone, Debug, Default)]
struct ParentThreads(Vec<ThreadId>);

impl State for ParentThreads {
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
        Some(Box::<ParentThreads>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let above = states.get::<ParentThreads>(NAME).map(|above| above.0.clone()).unwrap_or_default();
        let tree = self.tree(above.first().unwrap_or(thread));
        Ok(Arc::new(ThreadCostLimit { limit: self.clone(), above, tree, permitted: Mutex::default() }))
    }
}

/// The cost limit in a thread.
#[derive(Debug)]
pub(super) struct ThreadCostLimit {
    limit: CostLimit,
    above: Vec<ThreadId>,
    tree: Arc<ThreadTree>,
    /// The permitted call that is about to be made.
    permitted: Mutex<Option<RunningCall>>,
}

impl ThreadCostLimit {
    fn replace_permitted(&self, call: Option<RunningCall>) -> Option<RunningCall> {
        std::mem::replace(&mut *self.permitted.lock().unwrap_or_else(PoisonError::into_inner), call)
    }

    /// Puts a sub-agent of this thread under the same limit, unless it has its own. Also returns the change that tells its
    /// thread where it belongs.
    pub(super) fn extend_to(&self, thread: &ThreadId, agent: Agent) -> (Agent, StateChange) {
        let above: Vec<ThreadId> = self.above.iter().chain([thread]).cloned().collect();
        let agent = match agent.has_middleware(NAME) {
            true => agent,
            false => agent.with_middleware(Arc::new(self.limit.clone())),
        };
        (agent, StateChange::new::<ParentThreads>(NAME, &above))
    }

    /// Notes that the parent's log has the cost of this sub-agent.
    pub(super) fn note_in_parent(&self, sub_agent: &ThreadId) {
        if let Some(account) = self.tree.costs().accounts.get_mut(sub_agent) {
            account.is_in_parent = true;
        }
    }

    /// Waits until a model call may be made. Returns the reason if it must not.
    async fn objection(&self, context: MiddlewareContext<'_>) -> Option<String> {
        drop(self.replace_permitted(None));
        let cost = self.limit.prices.cost(context.thread_state.spent());
        if let Some(model) = cost.unpriced().first() {
            return self.limit.unpriced(model);
        }
        self.tree.costs().set(context.thread, &self.above, cost.dollars());
        let most = self.limit.most.dollars();
        loop {
            let ended = self.tree.ended.notified();
            tokio::pin!(ended);
            // From here on, no notification is missed.
            ended.as_mut().enable();
            match self.tree.permit(most) {
                Permit::OverLimit(total) => {
                    let cost = Cost::of_dollars(total);
                    return Some(format!(
                        "the thread has cost {cost}, and its limit is ${}",
                        self.limit.most
                    ));
                }
                Permit::Wait => ended.await,
                Permit::Call(call) => {
                    drop(self.replace_permitted(Some(call)));
                    return self.limit.unpriced(context.model.name());
                }
            }
        }
    }
}

#[async_trait]
impl Middleware for ThreadCostLimit {
    fn name(&self) -> &str {
        NAME
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        let end = |reason| MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason }));
        Ok(self.objection(context).await.map(end).into_iter().collect())
    }

    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let call = self.replace_permitted(None);
        // A skill may have chosen another model.
        if let Some(problem) = self.limit.unpriced(next.model.name()) {
            return Err(ModelError::new(next.model.name(), ModelErrorKind::Invalid, problem));
        }
        let response = next.call().await?;
        let cost = self.limit.prices.cost(&ModelUsage::on(response.model.as_str(), response.usage));
        // Added before the call stops counting as running.
        self.tree.costs().add(context.thread, cost.dollars());
        drop(call);
        Ok(response)
    }

    async fn after_agent(
        &self,
        _: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        drop(self.replace_permitted(None));
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ThreadId {
        name.parse().unwrap()
    }

    fn call(tree: &Arc<ThreadTree>, most: u64) -> Option<RunningCall> {
        match tree.permit(most.into()) {
            Permit::Call(call) => Some(call),
            Permit::Wait | Permit::OverLimit(_) => None,
        }
    }

    #[test]
    fn calls_at_once_are_no_more_than_what_is_left() {
        let tree = Arc::new(ThreadTree::default());
        let first = call(&tree, 5).expect("nothing was spent");
        assert!(call(&tree, 5).is_none(), "the cost of the first is not known yet");
        tree.costs().add(&id("root"), Decimal::ONE);
        drop(first);
        let calls: Vec<RunningCall> = std::iter::from_fn(|| call(&tree, 5)).collect();
        assert_eq!(calls.len(), 4);
        for call in calls {
            tree.costs().add(&id("sub"), Decimal::ONE);
            drop(call);
        }
        assert!(matches!(tree.permit(5.into()), Permit::OverLimit(total) if total == 5.into()));
    }

    #[test]
    fn what_a_sub_agent_cost_counts_once() {
        let tree = ThreadTree::default();
        let (root, sub, cut) = (id("root"), id("sub"), id("cut"));
        let mut costs = tree.costs();
        costs.set(&root, &[], 1.into());
        for each in [&sub, &cut] {
            costs.set(each, std::slice::from_ref(&root), 0.into());
            costs.add(each, 2.into());
        }
        assert_eq!(costs.total(), 5.into());
        costs.accounts.get_mut(&sub).unwrap().is_in_parent = true;
        assert_eq!(costs.total(), 5.into());
        costs.set(&root, &[], 3.into());
        assert_eq!(costs.total(), 5.into(), "the cost of the one that was cut off is in no parent's log");
    }
}
