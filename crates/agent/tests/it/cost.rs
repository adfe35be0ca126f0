//! What a thread costs.

use std::sync::Arc;

use prowess_agent::middleware::SubAgents;
use prowess_agent::{Agent, NoWatcher, Prices, ThreadId, Usage};
use prowess_models::{Scripted, ScriptedTurn};
use serde_json::json;

#[tokio::test]
async fn a_thread_costs_what_it_and_its_sub_agents_were_answered() {
    let said = |turn: ScriptedTurn, input, output| turn.usage(Usage::new(input, output));
    let small = Scripted::new([said(ScriptedTurn::new().say("done"), 1_000, 100)]).model_name("test:small");
    let odd = Scripted::new([said(ScriptedTurn::new().say("done"), 1, 1)]).model_name("test:odd");
    let big = Scripted::new([
        said(
            ScriptedTurn::new()
                .call("task", json!({"description": "do it"}))
                .call("task", json!({"description": "do it", "subagent_type": "odd"})),
            10_000,
            200,
        ),
        said(ScriptedTurn::new().say("it is done"), 11_000, 50),
    ])
    .model_name("test:big-2");
    let agent = |model| Agent::builder(Arc::new(model)).build().unwrap();
    let sub_agents = SubAgents::new(agent(small)).sub_agent("odd", "Has no price.", agent(odd));
    let agent = Agent::builder(Arc::new(big)).middleware(sub_agents).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("do it", &NoWatcher).await.unwrap();

    let prices = "[\"test:big-*\"]\ninput = 3\noutput = 15\n[\"test:small\"]\ninput = 0.25\noutput = 1.25\n";
    let prices: Prices = toml::from_str(prices).unwrap();
    let cost = prices.cost(thread.state().spent());
    // 21,000 and 250 tokens of the one, 1,000 and 100 of the other.
    assert_eq!(cost.micros(), 63_000 + 3_750 + 250 + 125);
    assert_eq!(cost.to_string(), "$0.0671, without test:odd: no price is known");
}
