//! Todos, when the conversation that they were written in is gone.

use prowess_agent::middleware::{Keep, StateFiles, Summarisation, Todos, Trigger};
use prowess_agent::{Agent, NoWatcher, ThreadId};

use crate::says::{Says, calls, text};

#[tokio::test]
async fn the_list_is_said_again_once_the_conversation_was_cut() {
    let list = r#"{"todos": [
        {"content": "look", "status": "completed"},
        {"content": "leap\n- [x] land", "status": "in_progress"},
        {"content": "rest", "status": "pending"}
    ]}"#;
    let model =
        Says::new([calls(&[("a", "write_todos", list)]), text("planned"), text("a summary"), text("on it")]);
    let files = StateFiles::new();
    let summaries = Summarisation::new(model.clone(), files.clone())
        .trigger(Trigger::Messages(5))
        .keep(Keep::Messages(1));
    let agent = Agent::builder(model.clone())
        .middleware(files)
        .middleware(summaries)
        .middleware(Todos)
        .build()
        .unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("plan", &NoWatcher).await.unwrap();
    assert_eq!(model.request(1).system.len(), 1, "the list is in the conversation");
    thread.say("go", &NoWatcher).await.unwrap();
    assert!(thread.state().cut() > 0);
    let request = model.request(3);
    let sections: Vec<(&str, bool)> =
        request.system.iter().map(|section| (section.owner.as_str(), section.is_stable)).collect();
    assert_eq!(sections, [("todos", true)], "the prompt stays as it is");
    insta::assert_snapshot!(request.messages.last().unwrap().text(), @r"
    [Your list of todos, as you wrote it last. This is not from the user.]

    - [x] look
    - [>] leap - [x] land
    - [ ] rest

    `x` is completed, `>` in progress.
    ");
}
