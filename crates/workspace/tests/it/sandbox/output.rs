//! Cases 52 to 54: output.

use prowess_workspace::{Exit, RunWarning};

use crate::home::{Home, text};
use crate::modes::in_both_modes;

in_both_modes!(
    case_52_a_gigabyte_of_output,
    case_52_an_endless_line_on_both_streams,
    case_53_binary_output,
    case_54_terminal_sequences
);

async fn case_52_a_gigabyte_of_output() {
    let home = Home::new();
    let mut command = home.command("printf begin; head -c 1000000000 /dev/zero; printf end");
    command.limits.output_total = 2 << 30;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::Code(0));
    assert_eq!(finished.stdout.total, 1_000_000_008);
    assert!(finished.stdout.head.starts_with(b"begin\0") && finished.stdout.tail.ends_with(b"\0end"));
    assert_eq!(finished.stdout.head.len() + finished.stdout.tail.len(), 1 << 20);
    assert!(finished.warnings.iter().any(|warning| matches!(warning, RunWarning::OutputCut { .. })));
    assert!(peak_memory() < 200 << 20, "{}", peak_memory());
}

async fn case_52_an_endless_line_on_both_streams() {
    let home = Home::new();
    let mut command = home.command("yes >&2 & exec yes");
    command.limits.output_total = 50 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::TooMuchOutput);
    assert!(finished.stdout.total + finished.stderr.total < 60 << 20);
}

async fn case_53_binary_output() {
    let home = Home::new();
    let finished = home.run(r"printf '\000\377\376\001\200end'; printf '\303\050' >&2").await;
    assert_eq!(finished.stdout.head, b"\x00\xff\xfe\x01\x80end");
    assert_eq!(finished.stderr.head, b"\xc3\x28");
}

async fn case_54_terminal_sequences() {
    // Control sequences are data here: they stay unchanged and reach no terminal. The program that shows them must make
    // them harmless.
    let home = Home::new();
    let finished = home
        .run(r"printf '\033]52;c;cm0gLXJm\007\033[2J'; (echo x > /dev/tty) 2>/dev/null || echo none")
        .await;
    assert_eq!(text(&finished), "\x1b]52;c;cm0gLXJm\x07\x1b[2Jnone\n");
}

/// The peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
