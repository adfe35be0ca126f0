//! What rules deny to the model: nobody is told that the model sees it, and typing its name costs nothing.

use super::*;

const DENY: &str = "[permission.skill]\n\"secret\" = \"deny\"\n";

/// A home with two skills, one of which these rules are about.
fn with_secret(model: &FakeModel, rules: &str) -> World {
    let world = world(model);
    configure(&world, &model.url(), rules);
    world.skill("home/.prowess/skills", "secret", "Tells a secret. Use for secrets.");
    world
}

#[test]
fn a_denied_skill_is_shown_to_people_as_what_it_is() {
    let model = FakeModel::start(Vec::new());
    for rules in [DENY, "[agent.chat.permission.skill]\n\"secret\" = \"deny\"\n"] {
        let world = with_secret(&model, rules);
        let info = world.stdout(&["info", "secret"]);
        let sees = info.lines().find(|line| line.contains("model sees it")).unwrap();
        assert!(sees.contains(" no"), "{sees}");
        assert!(sees.contains("denied"), "{sees}");
        assert_eq!(world.json(&["info", "secret", "--json"])["model_visible"], false);
        for form in ["section", "list", "xml", "compact"] {
            let prompt = world.stdout(&["prompt", "--form", form]);
            assert!(prompt.contains("tides") && !prompt.contains("secret"), "{form}: {prompt}");
        }
        assert_eq!(world.json(&["prompt", "--json"])["skills"], 1);
        let listed = world.stdout(&["list"]);
        let row = listed.lines().find(|line| line.starts_with("secret")).unwrap();
        assert!(row.contains("denied"), "{row}");
        let listed = world.json(&["list", "--json"]);
        assert_eq!(listed["skills"][0]["name"], "secret");
        assert_eq!(listed["skills"][0]["model_visible"], false, "{listed}");
        assert_eq!(listed["skills"][1]["model_visible"], true, "{listed}");
        let found = world.stdout(&["search", "secret"]);
        assert!(found.lines().any(|line| line.contains("secret") && line.contains("denied")), "{found}");
        assert_eq!(world.json(&["search", "secret", "--json"])[0]["model_visible"], false);
    }
}

#[test]
fn a_trusted_project_s_rules_count_where_its_skills_do() {
    let model = FakeModel::start(Vec::new());
    let world = with_secret(&model, "");
    world.file("project/prowess.toml", DENY);
    let sees =
        |args: &[&str]| world.json(&[&["info", "secret", "--json"], args].concat())["model_visible"].clone();
    assert_eq!(sees(&[]), true, "nobody trusts the project");
    assert_eq!(sees(&["--trust-project"]), false);
}

#[test]
fn the_name_of_a_denied_skill_never_reaches_the_model() {
    let model = FakeModel::start(vec![Answer::text("I should not be asked.")]);
    let world = with_secret(&model, DENY);
    let mut pty = begun(&world, &[], 90, 40);
    let greeting = pty.screen();
    assert!(greeting.contains("1 skill ·"), "{greeting}");
    pty.type_line("/secret of the sea");
    let screen = pty.wait_for("denied");
    assert!(!screen.contains("I should not be asked."), "{screen}");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(model.requests().len(), 0, "it cost something");
    let output = world.output(&["chat", "/secret of the sea"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("denied"), "{told}");
    assert_eq!((output.status.code(), model.requests().len()), (Some(2), 0));
}

#[test]
fn the_list_of_skills_in_a_conversation_has_what_the_model_has() {
    let model = FakeModel::start(Vec::new());
    let world = with_secret(&model, DENY);
    let told = world.stdout(&["chat", "/skills"]);
    assert!(told.lines().any(|line| line.trim_start().starts_with("tides")), "{told}");
    assert!(!told.lines().any(|line| line.trim_start().starts_with("secret ")), "{told}");
    assert!(told.contains("denied"), "{told}");
}

#[test]
fn a_skill_for_models_alone_says_so() {
    let model = FakeModel::start(vec![Answer::text("I should not be asked.")]);
    let world = world(&model);
    world.file(
        "home/.prowess/skills/internal/SKILL.md",
        "---\nname: internal\ndescription: For models.\nuser-invocable: false\n---\n\nDo it.\n",
    );
    let output = world.output(&["chat", "/internal now"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("user-invocable: false"), "{told}");
    assert_eq!((output.status.code(), model.requests().len()), (Some(2), 0));
    let pty = begun(&world, &[], 90, 40);
    pty.type_line("/internal");
    pty.wait_for("user-invocable: false");
    at_prompt(&pty);
    pty.type_line("/tdies");
    pty.wait_for("did you mean /tides?");
    at_prompt(&pty);
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn a_skill_that_waits_for_its_files_is_not_said_to_be_seen() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    world.file(
        "home/.prowess/skills/charts/SKILL.md",
        "---\nname: charts\ndescription: Draws charts.\npaths: \"*.chart\"\n---\n\nDo it.\n",
    );
    let info = world.stdout(&["info", "charts"]);
    let sees = info.lines().find(|line| line.contains("model sees it")).unwrap();
    assert!(sees.contains("paths"), "{sees}");
    let prompt = world.stdout(&["prompt"]);
    assert!(prompt.contains("tides") && !prompt.contains("charts"), "{prompt}");
}

#[test]
fn a_person_sees_the_rule_that_denies_a_command_and_the_model_does_not() {
    let model = FakeModel::start(vec![runs("echo hello"), Answer::text("I see.")]);
    let world = world(&model);
    configure(&world, &model.url(), "[permission.run]\n\"tides echo *\" = \"deny\"\n");
    let pty = begun(&world, &[], 120, 40);
    pty.type_line("say hello");
    let screen = pty.wait_for("I see.");
    let rule = "[permission.run] \"tides echo *\" = \"deny\"";
    assert!(screen.contains(&format!("denied by {rule} in your prowess.toml")), "{screen}");
    let said = all(&model.requests()[1]);
    assert!(said.contains("is denied by a rule") && !said.contains("echo *"), "{said}");
}

/// Neither lists nor patterns of any tool name a file that a rule denies. A command is not refused because of it: that would
/// say that it is there.
#[test]
fn the_name_of_a_denied_file_never_reaches_the_model() {
    let patterns =
        ["/project/*.txt", "/project/*/pelican.txt", "/project/{heron*,plan.txt}", "/project/n*/*"];
    let mut answers = vec![
        Answer::call("ls", json!({"path": "/project"}))
            .and_call("ls", json!({"path": "/project/nest"}))
            .and_call("glob", json!({"pattern": "/project/**/*.txt"}))
            .and_call("glob", json!({"pattern": "*.txt", "path": "/project"}))
            .and_call("glob", json!({"pattern": "/project/nest/*"}))
            .and_call("grep", json!({"pattern": "tide", "path": "/project"}))
            .and_call("grep", json!({"pattern": "tide", "path": "/project", "glob": "**/*.txt"})),
    ];
    answers.extend(patterns.map(|pattern| runs(&format!("cat {pattern}; echo ended"))));
    // Only a name that the model says itself is refused, whether the file exists or not.
    answers.extend(["heron-7.txt", "heron-8.txt"].map(|name| runs(&format!("cat /project/{name}"))));
    answers.push(Answer::text("Done."));
    let model = FakeModel::start(answers);
    let world = world(&model);
    let rules = "[permission.read]\n\"*\" = \"allow\"\n\"heron*\" = \"deny\"\n\"pelican*\" = \"deny\"\n";
    configure(&world, &model.url(), rules);
    world
        .file("project/heron-7.txt", "tide of herons\n")
        .file("project/plan.txt", "tide of plans\n")
        .file("project/nest/pelican.txt", "tide of pelicans\n")
        .file("project/nest/notes.txt", "tide of notes\n");
    let told = world.run(&["chat", "--yes", "look"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 8, "{told}");
    let answers = |request: &Value| -> Vec<String> {
        let messages = request["messages"].as_array().unwrap().iter();
        let answers = messages.filter(|message| message["role"] == "tool");
        answers.map(|message| message["content"].to_string()).collect()
    };
    let all = answers(&requests[7]);
    assert_eq!(all.len(), 13, "{all:#?}");
    for (number, answer) in all[..11].iter().enumerate() {
        for hidden in ["heron-7", "of herons", "pelican.txt", "of pelicans"] {
            // A command's answer may repeat what the model wrote.
            let is_repeated = number == 8 && hidden == "pelican.txt";
            assert!(!answer.contains(hidden) || is_repeated, "{number}: {hidden}: {answer}");
        }
    }
    assert!(all[0].contains("plan.txt") && all[2].contains("nest/notes.txt"), "{all:#?}");
    assert!(all[7].contains("tide of plans") && all[10].contains("tide of notes"), "{all:#?}");
    assert_eq!(all[11], all[12].replace("heron-8", "heron-7"), "{told}");
}

/// Each pair of commands differs in one name: of a denied file or directory that exists, and of one that does not.
#[test]
fn no_command_tells_a_model_whether_a_denied_file_exists() {
    let commands = [
        "cat /project/NAME*/../plan.txt",
        "cat /project/NAME/../plan.txt",
        "cat /project/NAME/$X",
        "cat /project/NAME/egg.txt",
        "cat /project/NAME/../NAME/egg.txt",
        "ls /project/NAME; cat NAME/../plan.txt",
        "cat /project/{plan.txt,NAME}",
    ];
    // A directory and a file that exist, and a name of which nothing exists.
    let names = ["heron-7", "heron-8.txt", "heron-9"];
    let mut script: Vec<Answer> =
        commands.iter().flat_map(|command| names.map(|name| runs(&command.replace("NAME", name)))).collect();
    script.push(Answer::text("Done."));
    let model = FakeModel::start(script);
    let world = world(&model);
    configure(&world, &model.url(), "[permission.read]\n\"*\" = \"allow\"\n\"heron*\" = \"deny\"\n");
    world
        .file("project/heron-7/egg.txt", "an egg\n")
        .file("project/heron-8.txt", "a feather\n")
        .file("project/plan.txt", "tide of plans\n");
    let told = world.run(&["chat", "--yes", "look"]);
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().iter();
    let answers: Vec<String> = messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].to_string())
        .collect();
    assert_eq!(answers.len(), commands.len() * names.len(), "{told}");
    let durations = regex::Regex::new(r#"duration_ms\\":\d+"#).unwrap();
    for (command, answers) in commands.iter().zip(answers.chunks(names.len())) {
        let neutral = |at: usize| {
            let text = answers[at].replace(names[at], "NAME");
            durations.replace_all(&text, "duration").into_owned()
        };
        assert_eq!(neutral(0), neutral(2), "{command}: a directory");
        assert_eq!(neutral(1), neutral(2), "{command}: a file");
    }
}

#[test]
fn a_copy_does_not_tell_whether_a_denied_file_exists() {
    let copy = |to: &str| Answer::call("copy_file", json!({"from": "/project/plan.txt", "to": to}));
    let model = FakeModel::start(vec![
        copy("/project/heron-8.txt"),
        copy("/project/heron-9.txt"),
        copy("/project/copy.txt"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    let rules = "[permission.read]\n\"*\" = \"allow\"\n\"heron*\" = \"deny\"\n[permission.write]\n\"*\" = \"allow\"\n";
    configure(&world, &model.url(), rules);
    world.file("project/heron-8.txt", "a feather\n").file("project/plan.txt", "tide of plans\n");
    let told = world.run(&["chat", "--yes", "copy it"]);
    let answers: Vec<String> = model.requests()[1..].iter().map(last).collect();
    assert_eq!(answers.len(), 3, "{told}");
    assert!(answers[0].contains("a rule denies to read it"), "{answers:#?}");
    assert_eq!(answers[0], answers[1].replace("heron-9", "heron-8"), "{told}");
    assert!(answers[2].contains("Copied"), "{answers:#?}");
}
