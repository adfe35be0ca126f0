//! What a thread costs, with all of its sub-agents.

use super::*;

const PRICES: &str = "[price.\"fake:*\"]\ninput = 1\noutput = 1\n[limits]\nmodel_calls = 100\n";

/// Looks at files, for a dollar.
fn looks() -> Answer {
    Answer::call("ls", json!({"path": "/"})).usage(1_000_000, 0)
}

fn tasks(count: usize) -> Answer {
    let task = |number| json!({"description": format!("Task {number}.")});
    let first = Answer::call("task", task(0)).usage(1_000_000, 0);
    (1..count).fold(first, |answer, number| answer.and_call("task", task(number)))
}

fn told(world: &World, args: &[&str]) -> String {
    stable(world, &world.run(args))
}

#[test]
fn case_105_twenty_sub_agents_cost_no_more_than_one_limit() {
    let answers = std::iter::once(tasks(20)).chain((0..200).map(|_| looks()));
    let model = FakeModel::start(answers.collect());
    let world = world(&model);
    configure(&world, &model.url(), PRICES);
    let output = told(&world, &["chat", "--max-cost", "5", "do it"]);
    let asked = model.requests().len();
    assert!(asked <= 5, "a limit of $5 and {asked} calls of a dollar each:\n{output}");
    assert_eq!(asked, 5, "it may cost that much:\n{output}");
    assert!(output.contains("the thread has cost $5.0000, and its limit is $5"), "{output}");
    // What a thread has cost it has cost.
    let again = told(&world, &["chat", "--resume", "last", "--max-cost", "5", "go on"]);
    assert_eq!(model.requests().len(), asked, "{again}");
    assert!(again.contains("the thread has cost $5.0000"), "{again}");
    told(&world, &["chat", "--resume", "last", "--max-cost", "7", "go on"]);
    assert_eq!(model.requests().len(), 7);
}

#[test]
fn case_105_sub_agents_of_sub_agents_count_and_so_do_those_that_ended() {
    let is_inner = |body: &Value| all(body).contains("Task 0.") && !all(body).contains("do it");
    let ends = || Answer::text("Done.").usage(1_000_000, 0).when(is_inner);
    let model = FakeModel::start(vec![
        tasks(1),
        ends(),
        tasks(1),
        ends(),
        tasks(1),
        ends(),
        Answer::text("All done.").usage(1_000_000, 0),
    ]);
    let world = world(&model);
    configure(&world, &model.url(), PRICES);
    let output = told(&world, &["chat", "--max-cost", "3.5", "do it"]);
    assert_eq!(model.requests().len(), 4, "{output}");
    assert!(output.contains("the thread has cost $4.0000, and its limit is $3.5"), "{output}");
}
