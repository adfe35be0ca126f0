//! Tests of input and output.

use bytes::Bytes;

use super::{RecordedOutput, SECRET, Trial, behaviours, err, out};
use crate::command::{Exit, Input};
use crate::executor::{OutputSink as _, Stream};

behaviours!(
    streams_are_kept_apart,
    order_within_a_stream_is_kept,
    silence_is_empty,
    a_missing_last_newline_stays_missing,
    binary_output_is_kept,
    unicode_passes,
    quotes_pass,
    many_lines_pass,
    long_output_keeps_head_and_tail,
    output_that_just_fits_is_whole,
    too_much_output_ends_it,
    both_streams_can_be_full,
    standard_input_is_empty_when_none_is_given,
    standard_input_is_given,
    large_input_passes,
    input_need_not_be_read,
    input_can_be_binary,
    input_can_come_while_it_runs,
    an_open_input_keeps_nothing_alive,
    the_sink_sees_everything_in_order,
    the_sink_sees_output_while_it_runs,
    standard_output_can_be_opened_again,
    secrets_are_redacted,
    split_secrets_are_redacted,
    the_sink_sees_no_secret,
);

async fn streams_are_kept_apart(trial: Trial) {
    let finished = trial.run("echo out; echo err >&2").await;
    assert_eq!((out(&finished).as_str(), err(&finished).as_str()), ("out\n", "err\n"));
}

async fn order_within_a_stream_is_kept(trial: Trial) {
    let expected: String = (1..=2000).map(|number| format!("{number}\n")).collect();
    assert_eq!(trial.says("for i in $(seq 2000); do echo $i; done").await, expected);
}

async fn silence_is_empty(trial: Trial) {
    let finished = trial.run("true").await;
    assert_eq!((finished.stdout.total, finished.stderr.total), (0, 0), "{}", err(&finished));
}

async fn a_missing_last_newline_stays_missing(trial: Trial) {
    assert_eq!(trial.says("printf end").await, "end");
}

async fn binary_output_is_kept(trial: Trial) {
    let finished = trial.run(r"for i in {0..255}; do printf \\x$(printf %02x $i); done").await;
    assert_eq!(finished.stdout.head, (0..=255).collect::<Vec<u8>>());
}

async fn unicode_passes(trial: Trial) {
    assert_eq!(
        trial.says("echo 'größe 数 🦀'; printf %s \"${#X}\" ; X=ü; echo ${#X}").await,
        "größe 数 🦀\n01\n"
    );
}

async fn quotes_pass(trial: Trial) {
    let line = r#"printf '%s\n' "a b" 'c"d' e\'f '$HOME' `echo g` "--" -x"#;
    assert_eq!(trial.says(line).await, "a b\nc\"d\ne'f\n$HOME\ng\n--\n-x\n");
}

async fn many_lines_pass(trial: Trial) {
    assert_eq!(
        trial.says("cat <<'END'\none\n$two\nEND\nif true\nthen\n\techo three\nfi").await,
        "one\n$two\nthree\n"
    );
}

async fn long_output_keeps_head_and_tail(trial: Trial) {
    let mut command = trial.command("printf BEGIN; head -c 1000000 /dev/zero | tr '\\0' x; printf END");
    command.limits.output_kept = 100;
    let finished = trial.finish(command).await;
    assert_eq!(
        (finished.exit, finished.stdout.total, finished.stdout.left_out()),
        (Exit::Code(0), 1_000_008, 999_908)
    );
    assert!(finished.stdout.head.starts_with(b"BEGINx") && finished.stdout.tail.ends_with(b"xEND"));
    assert!(!finished.warnings.is_empty());
}

async fn output_that_just_fits_is_whole(trial: Trial) {
    let mut command = trial.command("printf 0123456789");
    command.limits.output_kept = 10;
    let finished = trial.finish(command).await;
    assert_eq!((out(&finished).as_str(), finished.stdout.tail.len()), ("0123456789", 0));
    assert_eq!(finished.stdout.left_out(), 0);
}

async fn too_much_output_ends_it(trial: Trial) {
    let mut command = trial.command("exec yes");
    command.limits.output_total = 1 << 20;
    assert_eq!(trial.finish(command).await.exit, Exit::TooMuchOutput);
}

async fn both_streams_can_be_full(trial: Trial) {
    let finished = trial.run("head -c 500000 /dev/zero & head -c 500000 /dev/zero >&2; wait").await;
    assert_eq!((finished.stdout.total, finished.stderr.total), (500_000, 500_000));
}

async fn standard_input_is_empty_when_none_is_given(trial: Trial) {
    assert_eq!(trial.says("cat; read -r x || echo end").await, "end\n");
}

async fn standard_input_is_given(trial: Trial) {
    let mut command = trial.command("read -r first; echo $first; cat");
    command.stdin = Input::Bytes(Bytes::from_static(b"one\ntwo\nthree"));
    assert_eq!(out(&trial.finish(command).await), "one\ntwo\nthree");
}

async fn large_input_passes(trial: Trial) {
    let mut command = trial.command("wc -c");
    command.stdin = Input::Bytes(vec![b'x'; 5_000_000].into());
    assert_eq!(out(&trial.finish(command).await).trim(), "5000000");
}

async fn input_need_not_be_read(trial: Trial) {
    let mut command = trial.command("exit 3");
    command.stdin = Input::Bytes(vec![b'x'; 1_000_000].into());
    assert_eq!(trial.finish(command).await.exit, Exit::Code(3));
}

async fn input_can_be_binary(trial: Trial) {
    let mut command = trial.command("cat");
    let bytes: Vec<u8> = (0..=255).rev().collect();
    command.stdin = Input::Bytes(bytes.clone().into());
    assert_eq!(trial.finish(command).await.stdout.head, bytes);
}

async fn input_can_come_while_it_runs(trial: Trial) {
    /// Answers each question once, then closes the input.
    struct Answers(std::sync::Mutex<Option<std::fs::File>>);
    impl crate::executor::OutputSink for Answers {
        fn piece(&self, _: Stream, bytes: &[u8]) {
            use std::io::Write as _;
            let Ok(mut end) = self.0.lock() else { return };
            let answered = bytes.ends_with(b"name? ") && {
                end.as_mut().is_some_and(|end| end.write_all(b"crab\n").is_ok())
            };
            if !answered {
                end.take();
            }
        }
    }
    let Ok((from, to)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { panic!("no pipe") };
    let mut command = trial.command("printf 'name? '; read -r name; echo \"hello $name\"; cat; echo end");
    command.stdin = Input::Pipe(from.into());
    let answers = Answers(std::sync::Mutex::new(Some(to.into())));
    let Ok(finished) = trial.executor.run(command, &answers).await else { panic!("it did not start") };
    assert_eq!(out(&finished), "name? hello crab\nend\n");
}

async fn an_open_input_keeps_nothing_alive(trial: Trial) {
    let Ok((from, to)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { panic!("no pipe") };
    let mut command = trial.command("echo done");
    command.stdin = Input::Pipe(from.into());
    assert_eq!(out(&trial.finish(command).await), "done\n");
    drop(to);
}

async fn the_sink_sees_everything_in_order(trial: Trial) {
    let seen = RecordedOutput::default();
    let command = trial.command("for i in $(seq 1000); do echo $i; done; echo err >&2");
    let Ok(finished) = trial.executor.run(command, &seen).await else { panic!("it did not start") };
    assert_eq!(seen.of(Stream::Stdout), finished.stdout.head);
    assert_eq!(seen.of(Stream::Stderr), b"err\n");
}

async fn the_sink_sees_output_while_it_runs(trial: Trial) {
    /// Lets the command continue when its question has arrived.
    struct Answers(std::path::PathBuf);
    impl crate::executor::OutputSink for Answers {
        fn piece(&self, _: Stream, bytes: &[u8]) {
            if bytes.starts_with(b"go?") {
                let _ = std::fs::write(&self.0, "");
            }
        }
    }
    let answers = Answers(trial.path("work/answer"));
    answers.piece(Stream::Stdout, b"");
    let command = trial.command("echo 'go?'; while [ ! -e answer ]; do sleep 0.02; done; echo gone");
    let Ok(finished) = trial.executor.run(command, &answers).await else { panic!("it did not start") };
    assert_eq!(out(&finished), "go?\ngone\n");
}

async fn standard_output_can_be_opened_again(trial: Trial) {
    let finished =
        trial.run("echo out > /dev/stdout; echo err > /dev/stderr; echo in | cat /dev/stdin").await;
    assert_eq!((out(&finished).as_str(), err(&finished).as_str()), ("out\nin\n", "err\n"));
}

async fn secrets_are_redacted(trial: Trial) {
    let finished = trial.run(&format!("echo a {SECRET} b; echo {SECRET}{SECRET} >&2")).await;
    assert_eq!(
        (out(&finished).as_str(), err(&finished).as_str()),
        ("a [redacted] b\n", "[redacted][redacted]\n")
    );
}

async fn split_secrets_are_redacted(trial: Trial) {
    let (left, right) = SECRET.split_at(6);
    assert_eq!(trial.says(&format!("printf {left}; sleep 0.2; echo {right}")).await, "[redacted]\n");
}

async fn the_sink_sees_no_secret(trial: Trial) {
    let seen = RecordedOutput::default();
    let (left, right) = SECRET.split_at(3);
    let command = trial.command(&format!("printf {left}; sleep 0.2; echo {right}; printf {left}"));
    assert!(trial.executor.run(command, &seen).await.is_ok());
    assert_eq!(seen.of(Stream::Stdout), [b"[redacted]\n", left.as_bytes()].concat());
}
