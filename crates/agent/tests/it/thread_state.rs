//! The state machine: what comes next, and what can never happen.

use proptest::prelude::*;
use prowess_agent::id::CallId;
use prowess_agent::message::{AssistantPart, Content};
use prowess_agent::model::{Finish, ModelErrorKind, ModelUsage};
use prowess_agent::thread_state::{NextStep, ReadyCall, StateChange};
use prowess_agent::{
    CallReply, Event, Message, ModelError, ThreadState, ToolAnswer, ToolCall, TurnLimits, TurnOutcome, Usage,
};
use serde_json::{Value, json};

use crate::asks::own_question;

fn said(text: &str) -> Event {
    Event::TurnStarted { messages: vec![Message::user(text)] }
}

fn call(id: &str) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall { id: id.into(), name: "ls".to_owned(), arguments: "{}".to_owned() })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text { text: text.to_owned() }
}

fn answered(parts: Vec<AssistantPart>) -> Event {
    let usage = Usage::new(10, 1);
    let model = "scripted".to_owned();
    Event::ModelResponded { model, message: Message::assistant(parts), usage, finish: Some(Finish::Stop) }
}

fn asked() -> Event {
    Event::ModelCalled { model: "scripted".to_owned() }
}

fn started(id: &str) -> Event {
    Event::ToolStarted { call: id.into() }
}

fn result(id: &str, text: &str) -> Event {
    Event::ToolAnswered { call: id.into(), answer: ToolAnswer::text(text) }
}

fn question(id: &str) -> Event {
    Event::Asked { call: id.into(), question: Box::new(own_question("may it?").into()), by_tool: false }
}

fn run(events: &[Event]) -> ThreadState {
    let mut run = ThreadState::default();
    for event in events {
        run.apply(event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
    }
    run
}

fn ready(effect: &NextStep) -> Vec<(&str, bool, bool)> {
    match effect {
        NextStep::CallTools(calls) => {
            calls.iter().map(|call| (call.call.id.as_str(), call.approved, call.interrupted)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_turn_with_two_calls() {
    let mut events = vec![said("list both"), asked(), answered(vec![text("looking"), call("a"), call("b")])];
    assert_eq!(ready(&run(&events).next()), [("a", false, false), ("b", false, false)]);
    events.extend([started("a"), started("b"), result("b", "second")]);
    assert_eq!(ready(&run(&events).next()), [("a", false, true)], "what was cut off is told");
    events.push(result("a", "first"));
    let after = run(&events);
    assert_eq!(after.next(), NextStep::CallModel);
    let texts: Vec<String> = after.messages().iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["list both", "looking", "first", "second"], "answers are in the order of the calls");
    events.extend([asked(), answered(vec![text("done")])]);
    let done = run(&events);
    assert_eq!(
        (done.next(), done.usage().input, done.model_calls()),
        (NextStep::End(TurnOutcome::Responded), 20, 2)
    );
    events.push(Event::TurnEnded { outcome: TurnOutcome::Responded });
    assert_eq!(run(&events).next(), NextStep::Wait);
}

#[test]
fn a_thread_read_again_is_the_same() {
    let events =
        [said("x"), asked(), answered(vec![call("a"), call("b")]), result("a", "1"), result("b", "2")];
    assert_eq!(run(&events), run(&events), "names of messages included");
}

#[test]
fn changes_of_parallel_calls_come_in_the_order_of_the_calls() {
    let change = |id: &str| Event::ToolAnswered {
        call: id.into(),
        answer: ToolAnswer::text("done").change(StateChange { owner: "todos".to_owned(), delta: json!(id) }),
    };
    let mut run = run(&[said("x"), asked(), answered(vec![call("a"), call("b"), call("c")])]);
    assert_eq!(run.apply(&change("c")).unwrap(), []);
    assert_eq!(run.apply(&change("a")).unwrap(), []);
    let deltas: Vec<_> = run.apply(&change("b")).unwrap().into_iter().map(|change| change.delta).collect();
    assert_eq!(deltas, [json!("a"), json!("b"), json!("c")]);
}

#[test]
fn a_call_that_waits_for_a_person() {
    let mut events = vec![said("x"), asked(), answered(vec![call("a"), call("b")]), question("a")];
    assert_eq!(ready(&run(&events).next()), [("b", false, false)], "others go on");
    events.extend([started("b"), result("b", "done")]);
    let NextStep::Ask(waiting) = run(&events).next() else { panic!() };
    assert_eq!(waiting[0].id, CallId::from("a"));
    let replied = |reply| [events.clone(), vec![Event::Replied { call: "a".into(), reply }]].concat();
    assert_eq!(ready(&run(&replied(CallReply::Approve)).next()), [("a", true, false)]);
    let edited = run(&replied(CallReply::Edit { arguments: "{\"path\":\"/\"}".to_owned() })).next();
    let NextStep::CallTools(calls) = edited else { panic!() };
    assert_eq!(calls[0].call.arguments, "{\"path\":\"/\"}");
    let rejected = run(&replied(CallReply::Reject { message: "not this".to_owned() }));
    assert_eq!(rejected.next(), NextStep::CallModel);
    assert_eq!(rejected.messages()[2].text(), "not this");
}

#[test]
fn an_edit_of_a_call_whose_tool_asked_begins_it_again() {
    let asks = |via: Option<Value>| {
        let Event::Asked { call, question, .. } = question("a") else { unreachable!() };
        let mut question = serde_json::to_value(*question).unwrap();
        if let Some(via) = via {
            question["via"] = via;
        }
        Event::Asked { call, question: serde_json::from_value(question).unwrap(), by_tool: true }
    };
    let events = |asked: Event, reply: CallReply| {
        let approved = Event::Approved { call: "a".into(), by: "rules".to_owned() };
        let replied = Event::Replied { call: "a".into(), reply };
        [said("x"), self::asked(), answered(vec![call("a")]), approved, started("a"), asked, replied]
    };
    let edit = CallReply::Edit { arguments: "{\"path\":\"/b\"}".to_owned() };
    let NextStep::CallTools(calls) = run(&events(asks(None), edit.clone())).next() else { panic!() };
    assert_eq!(calls[0].call.arguments, "{\"path\":\"/b\"}");
    assert!(!calls[0].approved && !calls[0].interrupted, "nothing that was approved before counts");
    assert_eq!(calls[0].consultation, None);
    // A sub-agent's question is about the sub-agent's own call.
    let via = json!({"name": "worker", "thread": "child", "number": 3});
    let NextStep::CallTools(calls) = run(&events(asks(Some(via)), edit.clone())).next() else { panic!() };
    assert_eq!(calls[0].call.arguments, "{}");
    assert_eq!(calls[0].consultation.as_ref().unwrap().reply, Some(edit));
}

#[test]
fn foolish_models_end_in_a_clear_state() {
    let ends = |event: Event| run(&[said("x"), asked(), event]).next();
    assert_eq!(ends(answered(Vec::new())), NextStep::End(TurnOutcome::Silent));
    let message = || Message::assistant(vec![text("half of")]);
    let usage = Usage::default();
    let cut = Event::ModelResponded {
        model: "scripted".to_owned(),
        message: message(),
        usage,
        finish: Some(Finish::Length),
    };
    assert_eq!(ends(cut), NextStep::End(TurnOutcome::CutOff));
    let refused = Event::ModelResponded {
        model: "scripted".to_owned(),
        message: message(),
        usage,
        finish: Some(Finish::Refused),
    };
    assert_eq!(ends(refused), NextStep::End(TurnOutcome::Refused));
    let error = ModelError::new("scripted", ModelErrorKind::Auth, "no key");
    assert_eq!(
        ends(Event::ModelFailed { error: error.clone() }),
        NextStep::End(TurnOutcome::Failed { error })
    );
}

#[test]
fn an_endless_loop_ends() {
    let mut run = ThreadState::new(TurnLimits::new(3));
    run.apply(&said("x")).unwrap();
    for _ in 0..3 {
        assert_eq!(run.next(), NextStep::CallModel);
        for event in [asked(), answered(vec![call("a")]), started("a"), result("a", "again")] {
            run.apply(&event).unwrap();
        }
    }
    assert_eq!(run.next(), NextStep::End(TurnOutcome::TooManyModelCalls { most: 3 }));
}

#[test]
fn an_ended_turn_leaves_no_call_open() {
    let end = Event::TurnEnded { outcome: TurnOutcome::Cancelled };
    let after = run(&[said("x"), asked(), answered(vec![call("a"), call("b")]), started("a"), end]);
    let texts: Vec<String> = after.messages()[2..].iter().map(|message| message.text()).collect();
    assert!(texts[0].contains("it is not known whether") && texts[1].contains("before this call was made"));
    assert_eq!(after.next(), NextStep::Wait);
}

#[test]
fn an_interrupted_call_can_be_answered_as_such() {
    let mut run = run(&[said("x"), asked(), answered(vec![call("a")]), started("a")]);
    let NextStep::CallTools(calls) = run.next() else { panic!() };
    run.apply(&ReadyCall::unknown_outcome(&calls[0])).unwrap();
    assert_eq!(run.next(), NextStep::CallModel);
}

#[test]
fn compaction_hides_and_never_parts_a_pair() {
    let turn = [said("one"), asked(), answered(vec![call("a")]), started("a"), result("a", "1"), asked()];
    let done = [answered(vec![text("done")]), Event::TurnEnded { outcome: TurnOutcome::Responded }];
    let mut after = run(&[turn.to_vec(), done.to_vec()].concat());
    let compacted =
        |cut| Event::Compacted { cut, summary: Message::user("so far"), spent: ModelUsage::default() };
    assert!(after.apply(&compacted(2)).is_err(), "the result would be without its call");
    assert!(after.apply(&compacted(9)).is_err());
    after.apply(&compacted(3)).unwrap();
    let seen: Vec<String> = after.view().map(|message| message.text()).collect();
    assert_eq!(seen, ["so far", "done"]);
    assert_eq!(after.messages().len(), 4, "nothing is lost");
    assert!(after.apply(&compacted(1)).is_err(), "what is hidden stays hidden");
    let mut waiting = run(&turn[..3]);
    assert!(waiting.apply(&compacted(2)).is_err(), "the result is still to come");
}

/// Another event each time: messages have names of their own.
fn fresh(event: fn() -> Event) -> impl Strategy<Value = Event> + Clone {
    Just(()).prop_map(move |()| event())
}

/// An event that may or may not fit.
fn any_event() -> impl Strategy<Value = Event> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c")];
    prop_oneof![
        fresh(|| said("x")),
        Just(asked()),
        fresh(|| answered(vec![text("t")])),
        fresh(|| answered(Vec::new())),
        fresh(|| answered(vec![call("a"), call("b")])),
        fresh(|| answered(vec![call("c")])),
        id.clone().prop_map(started),
        id.clone().prop_map(|id| result(id, "r")),
        id.clone().prop_map(question),
        id.clone().prop_map(|id| Event::Replied { call: id.into(), reply: CallReply::Approve }),
        id.prop_map(|id| Event::Replied {
            call: id.into(),
            reply: CallReply::Reject { message: "no".to_owned() }
        }),
        (0usize..12).prop_map(|cut| Event::Compacted {
            cut,
            summary: Message::user("s"),
            spent: ModelUsage::default()
        }),
        Just(Event::Stopped { outcome: TurnOutcome::Stopped { reason: "enough".to_owned() } }),
        Just(Event::TurnEnded { outcome: TurnOutcome::Cancelled }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever is thrown at it: what cannot have happened changes nothing, and a conversation is always one that a
    /// provider takes.
    #[test]
    fn no_sequence_breaks_a_conversation(events in proptest::collection::vec(any_event(), 0..60)) {
        let mut run = ThreadState::new(TurnLimits::new(5));
        let mut accepted = Vec::new();
        for event in events {
            let before = run.clone();
            match run.apply(&event) {
                Ok(_) => accepted.push(event),
                Err(_) => prop_assert_eq!(&run, &before),
            }
            let mut open: Vec<CallId> = Vec::new();
            for message in run.messages() {
                match &message.content {
                    Content::Tool(result) => {
                        prop_assert!(!open.is_empty(), "a result without a call");
                        prop_assert_eq!(&open.remove(0), &result.call);
                    }
                    Content::Assistant { parts } => {
                        prop_assert!(open.is_empty() && !parts.is_empty());
                        open.extend(message.tool_calls().map(|call| call.id.clone()));
                    }
                    Content::User { .. } => prop_assert!(open.is_empty()),
                }
            }
            let calls_wait = matches!(run.next(), NextStep::CallTools(_) | NextStep::Ask(_));
            prop_assert_eq!(calls_wait, !open.is_empty());
            prop_assert!(!matches!(run.view().nth(usize::from(run.cut() > 0)).map(|m| &m.content), Some(Content::Tool(_))));
            let ids: std::collections::BTreeSet<_> = run.messages().iter().map(|message| &message.id).collect();
            prop_assert_eq!(ids.len(), run.messages().len());
        }
        let mut again = ThreadState::new(TurnLimits::new(5));
        for event in &accepted {
            prop_assert!(again.apply(event).is_ok());
        }
        prop_assert_eq!(again, run);
    }
}
