//! Tests of the directories and files that commands see.

use super::{Trial, behaviours, out, read};
use crate::command::Command;
use crate::executor::privileges::sandbox_owner;

behaviours!(
    it_runs_in_its_directory,
    it_can_run_in_the_workspace,
    it_can_run_in_a_skill,
    the_workspace_s_variables_are_set,
    the_directories_exist,
    output_reaches_the_host,
    work_stays_for_the_next_run,
    each_run_has_its_own_directory,
    skills_are_read_only,
    skills_can_be_read_and_run,
    other_skills_are_not_there,
    the_system_is_read_only,
    temporary_files_are_private_and_fresh,
    home_is_fresh,
    variables_are_given,
    variables_keep_odd_values,
    loaders_are_refused,
    the_workspace_s_variables_cannot_be_changed,
    a_path_can_be_given,
    the_locale_is_utf_8,
    no_host_variable_shows,
    it_is_not_root,
    hidden_and_odd_names_work,
    parallel_runs_do_not_mix,
    linked_inputs_are_read_only,
    a_command_can_run_apart,
    set_ids_do_not_stay,
);

async fn it_runs_in_its_directory(trial: Trial) {
    assert_eq!(trial.says("[ $PWD = $WORK_DIR ] && echo same").await, "same\n");
}

async fn it_can_run_in_the_workspace(trial: Trial) {
    for directory in ["", "."] {
        let mut command = trial.command("[ $PWD = $WORKSPACE_DIR ] && echo same");
        command.directory = directory.to_owned();
        assert_eq!(out(&trial.finish(command).await), "same\n");
    }
}

/// Puts a skill into the workspace and returns a command that sees it.
fn skill(trial: &Trial, line: &str) -> Command {
    use std::os::unix::fs::PermissionsExt as _;
    let script = trial.path("skills/greet/scripts/greet.sh");
    let made = std::fs::create_dir_all(trial.path("skills/greet/scripts"))
        .and_then(|()| std::fs::write(&script, "#!/bin/bash\necho hello $1\n"))
        .and_then(|()| std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)));
    assert!(made.is_ok(), "{made:?}");
    let mut command = trial.command(line);
    command.skills = vec!["greet".to_owned()];
    command
}

async fn it_can_run_in_a_skill(trial: Trial) {
    let mut command = skill(&trial, "scripts/greet.sh you; [ $PWD = $SKILLS_DIR/greet ] && echo here");
    command.directory = "skills/greet".to_owned();
    assert_eq!(out(&trial.finish(command).await), "hello you\nhere\n");
}

async fn the_workspace_s_variables_are_set(trial: Trial) {
    let line = "for name in WORKSPACE_DIR SKILLS_DIR WORK_DIR OUTPUT_DIR RUN_DIR HOME TMPDIR PATH LANG; do [ -n \"${!name}\" ] || echo $name; done";
    assert_eq!(trial.says(line).await, "");
}

async fn the_directories_exist(trial: Trial) {
    let line = "for at in $WORKSPACE_DIR $SKILLS_DIR $WORK_DIR $OUTPUT_DIR $RUN_DIR $HOME $TMPDIR; do [ -d $at ] || echo $at; done";
    assert_eq!(trial.says(line).await, "");
}

async fn output_reaches_the_host(trial: Trial) {
    trial.run("mkdir -p $OUTPUT_DIR/deep/er && echo made > $OUTPUT_DIR/deep/er/file").await;
    assert_eq!(read(&trial.path("out/deep/er/file")), "made\n");
}

async fn work_stays_for_the_next_run(trial: Trial) {
    trial.run("echo kept > note").await;
    assert_eq!(trial.says("cat $WORK_DIR/note").await, "kept\n");
}

async fn each_run_has_its_own_directory(trial: Trial) {
    let line = "[ -z \"$(ls -A $RUN_DIR)\" ] && touch $RUN_DIR/x && echo $RUN_DIR";
    let (one, two) = (trial.says(line).await, trial.says(line).await);
    assert!(one != two && !one.is_empty() && !two.is_empty(), "{one} {two}");
}

async fn skills_are_read_only(trial: Trial) {
    let line = "cd $SKILLS_DIR/greet; (echo x > new) 2>/dev/null || echo 1; (echo x >> scripts/greet.sh) 2>/dev/null || echo 2; \
                rm -rf $SKILLS_DIR/greet 2>/dev/null || echo 3; mv $SKILLS_DIR/greet $WORK_DIR 2>/dev/null || echo 4";
    assert_eq!(out(&trial.finish(skill(&trial, line)).await), "1\n2\n3\n4\n");
    assert_eq!(read(&trial.path("skills/greet/scripts/greet.sh")), "#!/bin/bash\necho hello $1\n");
}

async fn skills_can_be_read_and_run(trial: Trial) {
    let line = "$SKILLS_DIR/greet/scripts/greet.sh us; head -n 1 $SKILLS_DIR/greet/scripts/greet.sh";
    assert_eq!(out(&trial.finish(skill(&trial, line)).await), "hello us\n#!/bin/bash\n");
}

async fn other_skills_are_not_there(trial: Trial) {
    let made = std::fs::create_dir_all(trial.path("skills/hushed"))
        .and_then(|()| std::fs::write(trial.path("skills/hushed/SKILL.md"), "hushed\n"));
    assert!(made.is_ok(), "{made:?}");
    let line = "ln -s ../skills/hushed link; cat $SKILLS_DIR/hushed/SKILL.md link/SKILL.md 2>/dev/null; \
                ls $SKILLS_DIR; (echo x > $SKILLS_DIR/new) 2>/dev/null || echo closed";
    assert_eq!(out(&trial.finish(skill(&trial, line)).await), "greet\nclosed\n");
    // A command without named skills sees none.
    assert_eq!(trial.says("ls $SKILLS_DIR; echo done").await, "done\n");
    let mut command = trial.command("cat SKILL.md");
    command.directory = "skills/hushed".to_owned();
    let why = trial.refusal(command).await;
    assert!(why.contains("skills/hushed"), "{why}");
    let mut command = trial.command("true");
    command.skills = vec!["../work".to_owned()];
    trial.refusal(command).await;
}

async fn the_system_is_read_only(trial: Trial) {
    let line =
        "for at in /usr/x /etc/x /bin/x /x; do (echo x > $at) 2>/dev/null && echo $at; done; echo done";
    assert_eq!(trial.says(line).await, "done\n");
}

async fn temporary_files_are_private_and_fresh(trial: Trial) {
    let line = "[ -e /tmp/prowess-trial ] && echo old; echo x > /tmp/prowess-trial && echo new";
    assert_eq!(trial.says(line).await, "new\n");
    assert_eq!(trial.says(line).await, "new\n");
    assert!(!std::path::Path::new("/tmp/prowess-trial").exists());
}

async fn home_is_fresh(trial: Trial) {
    let line = "ls -A $HOME; echo 'echo planted' > $HOME/.bash_profile; echo 'echo planted' > $HOME/.profile; echo ok";
    assert_eq!(trial.says(line).await, "ok\n");
    assert_eq!(trial.says(line).await, "ok\n");
}

async fn variables_are_given(trial: Trial) {
    let mut command = trial.command("echo $SKILL_NAME $lower_case");
    command.environment.insert("SKILL_NAME".into(), "greet".into());
    command.environment.insert("lower_case".into(), "too".into());
    assert_eq!(out(&trial.finish(command).await), "greet too\n");
}

async fn variables_keep_odd_values(trial: Trial) {
    let odd = " a=b 'c' \"d\" $(e)\n\t--f=ü\\";
    let mut command = trial.command("printf %s \"$ODD\"; printf %s \"[$EMPTY]\"");
    command.environment.insert("ODD".into(), odd.into());
    command.environment.insert("EMPTY".into(), String::new());
    assert_eq!(out(&trial.finish(command).await), format!("{odd}[]"));
}

async fn loaders_are_refused(trial: Trial) {
    for name in ["LD_PRELOAD", "BASH_ENV", "ENV", "PYTHONSTARTUP"] {
        let mut command = trial.command("true");
        command.environment.insert(name.into(), "x".into());
        assert!(trial.refusal(command).await.contains(name));
    }
}

async fn the_workspace_s_variables_cannot_be_changed(trial: Trial) {
    for name in ["WORKSPACE_DIR", "OUTPUT_DIR", "HOME"] {
        let mut command = trial.command("true");
        command.environment.insert(name.into(), "/etc".into());
        assert!(trial.refusal(command).await.contains(name));
    }
}

async fn a_path_can_be_given(trial: Trial) {
    let mut command = trial.command("echo $PATH");
    command.environment.insert("PATH".into(), "/bin:/usr/bin:/own".into());
    assert_eq!(out(&trial.finish(command).await), "/bin:/usr/bin:/own\n");
}

async fn the_locale_is_utf_8(trial: Trial) {
    assert_eq!(trial.says("locale charmap 2>/dev/null || echo UTF-8").await, "UTF-8\n");
}

async fn no_host_variable_shows(trial: Trial) {
    let said = trial.says("env").await;
    let expected =
        ["PWD", "OLDPWD", "SHLVL", "_", "PATH", "LANG", "HOME", "TMPDIR", "HOSTNAME", "TERM", "container"];
    for name in said.lines().filter_map(|line| line.split('=').next()) {
        assert!(expected.contains(&name) || name.ends_with("_DIR"), "{name} in {said}");
    }
}

async fn it_is_not_root(trial: Trial) {
    assert_eq!(trial.says("[ $(id -u) != 0 ] && echo plain; grep CapEff /proc/self/status 2>/dev/null | tr -d 'CapEf:0\\t\\n'").await, "plain\n");
}

async fn hidden_and_odd_names_work(trial: Trial) {
    trial.run("echo 1 > \"$OUTPUT_DIR/.hidden\"; echo 2 > \"$OUTPUT_DIR/a b ü.txt\"; echo 3 > $OUTPUT_DIR/$'new\\nline'").await;
    assert_eq!(
        ["out/.hidden", "out/a b ü.txt", "out/new\nline"].map(|path| read(&trial.path(path))),
        ["1\n", "2\n", "3\n"]
    );
}

async fn parallel_runs_do_not_mix(trial: Trial) {
    let line = |name: &str| {
        format!(
            "echo {name} > /tmp/who; touch /tmp/{name}; sleep 0.3; cat /tmp/who; ls /tmp | grep -cE '^(one|two)$'"
        )
    };
    let (one, two) = (line("one"), line("two"));
    let (one, two) = tokio::join!(trial.says(&one), trial.says(&two));
    assert_eq!((one.as_str(), two.as_str()), ("one\n1\n", "two\n1\n"));
}

async fn linked_inputs_are_read_only(trial: Trial) {
    let mut command = trial.command("cat inputs/data; (echo x > inputs/data) 2>/dev/null || echo closed");
    let data = trial.path("skills/data");
    assert!(std::fs::write(&data, "data\n").is_ok());
    command.read_only = vec![(data.clone(), "work/inputs/data".to_owned())];
    assert_eq!(out(&trial.finish(command).await), "data\nclosed\n");
    assert_eq!(read(&data), "data\n");
}

async fn a_command_can_run_apart(trial: Trial) {
    let own = trial.path("own");
    let made = std::fs::create_dir(&own).and_then(|()| match sandbox_owner() {
        Some((user, group)) => std::os::unix::fs::chown(&own, Some(user), Some(group)),
        None => Ok(()),
    });
    assert!(made.is_ok(), "{made:?}");
    trial.run("echo skill > note").await;
    let line =
        "cat $WORK_DIR/note; ls -A; (echo x > $WORK_DIR/new) 2>/dev/null || echo closed; echo kept > file";
    let mut command = trial.command(line);
    command.apart = Some(own.clone());
    assert_eq!(out(&trial.finish(command).await), "skill\nclosed\n");
    assert!(!trial.path("work/new").exists());
    assert_eq!(read(&own.join("file")), "kept\n");
}

async fn set_ids_do_not_stay(trial: Trial) {
    use std::os::unix::fs::PermissionsExt as _;
    trial.run("touch one; chmod 4755 one; cd $OUTPUT_DIR; touch two; chmod 2755 two; mkdir three; chmod 2755 three").await;
    for path in ["work/one", "out/two", "out/three"].map(|path| trial.path(path)) {
        let mode = std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o6000);
        assert!(matches!(mode, Ok(0)), "{}: {mode:?}", path.display());
    }
}
