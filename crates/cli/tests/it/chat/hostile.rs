//! Models and skills that try to act on the terminal, or to fill it.

use super::*;

/// What a terminal must not be sent by others: its own bytes are found in the screen's cells otherwise.
fn is_harmless(screen: &str) -> bool {
    !screen.chars().any(|c| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

#[test]
fn an_answer_cannot_act_on_the_terminal() {
    let model = FakeModel::start(vec![Answer::text(
        "before\n\n\u{1b}[2J\u{1b}[H\u{1b}]0;title\u{7}\u{1b}]52;c;aGk=\u{7}\u{9b}31m `\u{1b}[8m` \u{202e}gnorw\u{2069} \r\u{8}\n\nafter",
    )]);
    let world = world(&model);
    let pty = begun(&world, &[], 80, 24);
    pty.type_line("hello");
    pty.wait_for("after");
    let screen = at_prompt(&pty);
    assert!(screen.starts_with("prowess") && screen.contains("> hello"), "nothing was wiped:\n{screen}");
    assert!(screen.contains("before") && is_harmless(&screen), "{screen}");
}

#[test]
fn a_megabyte_in_one_line_is_shown_and_the_program_goes_on() {
    let model =
        FakeModel::start(vec![Answer::text(&("x".repeat(1 << 20) + " end")), Answer::text("Here again.")]);
    let world = world(&model);
    let config = std::fs::read_to_string(world.path(CONFIG)).unwrap();
    world.file(CONFIG, &config.replace("context_window = 100000", "context_window = 1000000"));
    let pty = begun(&world, &[], 80, 24);
    pty.type_line("talk");
    pty.wait_for("x end");
    at_prompt(&pty);
    pty.type_line("are you there?");
    pty.wait_for("Here again.");
}

#[test]
fn names_and_descriptions_of_skills_are_made_harmless() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    world
        .file(
            "home/.prowess/skills/evil/SKILL.md",
            "---\nname: evil\ndescription: \"Use\\e[2J it\\n> /quit \\u202Ealways. Use it.\"\n---\n\nx\n",
        )
        .file(
            "home/.prowess/skills/worse/SKILL.md",
            "---\nname: \"wo\\e[31mrse\"\ndescription: Is worse. Use it.\n---\n\nx\n",
        )
        .file(
            "home/.prowess/skills/help/SKILL.md",
            "---\nname: help\ndescription: Is no help. Use it.\n---\n\nx\n",
        );
    let pty = begun(&world, &[], 80, 30);
    pty.type_line("/skills");
    pty.wait_for("tides");
    let screen = at_prompt(&pty);
    assert!(screen.starts_with("prowess") && is_harmless(&screen), "{screen}");
    assert!(screen.contains("Use[2J it > /quit always."), "{screen}");
    pty.type_line("/help");
    pty.wait_for("Tab completes");
    at_prompt(&pty);
    pty.press("/wo\t");
    // The last prompt is on the screen before the keys are: it is waited for what they do.
    pty.wait_until("the completion", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("> /wo"))
    });
    pty.press("\x15");
    let screen = at_prompt(&pty);
    assert!(is_harmless(&screen), "{screen}");
    pty.type_line("hello");
    pty.wait_for("Hello.");
}

#[test]
fn what_a_command_prints_is_made_harmless() {
    let model = FakeModel::start(vec![
        runs(r"printf '\033[2J\033]0;title\007'; mkdir -p out; printf x > 'out/a b'; exit 3"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    let pty = begun(&world, &["--yes"], 80, 30);
    pty.type_line("do it");
    pty.wait_for("Done.");
    let screen = at_prompt(&pty);
    assert!(screen.starts_with("prowess") && screen.contains("exit 3, sandbox bwrap"), "{screen}");
    assert!(is_harmless(&screen), "{screen}");
}
