//! The first process of a container.
//!
//! It is a bash script. It waits for a line from its lifeline, enters the directory, sets its limits, and starts the
//! command in its own process group. Then it only reads its lifeline. It ends when the command has ended, when the
//! lifeline ends, or when its time is over. No other process is needed for this: a command could stop other processes,
//! but nothing inside can stop or kill the first one. When the first process ends, the kernel kills all others.

use super::directory::stdin_inside;
use crate::command::Command;
use crate::limits::MAX_TIMEOUT;

/// The greeting that the first process writes before the command starts.
pub(super) const HERE: &[u8] = b"here\n";
/// Its exit code if it has no lifeline.
pub(super) const NO_LIFE: i64 = 121;
/// Its exit code if it cannot enter the directory.
pub(super) const NO_DIRECTORY: i64 = 122;
/// How many processes run besides the command: the first one, and the command's parent.
pub(super) const OWN_PROCESSES: u64 = 2;

/// How much longer than the timeout the lifeline is read, in seconds.
const SLACK: u64 = 60;

/// Opening the lifeline of a dead process would block forever, so a guard process sends USR1 until the lifeline is open. It
/// repeats the signal, because one may come too early. The guard is killed before the command starts. Later, USR1 means
/// that the command has ended: it replaces the lifeline with an empty file, also for a read in progress. A signal between
/// two reads is noticed within a second, and so is the death of the command's parent.
///
/// `set -m` gives the command its own process group, and default signal handling. Descriptor 7 is the command's standard
/// error, to which the shell must not write when a child is killed. Descriptor 8 has the variables; it is opened before
/// the greeting, because the file is removed then. Descriptor 9 reports exit codes and memory. The command could also
/// write to it, but would only harm itself. Memory is reported because not every engine notices it. `-c` drops all
/// variables of the image.
const SCRIPT: &str = r#"
exec 9<>/run/prowess/told
trap 'exit 121' USR1
(while :; do read -r -t 15 <&9; kill -s USR1 1; done) &
guard=$!
exec 3</run/prowess/life
read -r -t 15 go <&3 || exit 121
cd -- "$2" || exit 122
mkdir -m 700 /tmp/home
exec 7>&2 2>/dev/null
kill -s KILL "$guard"
wait "$guard"
trap 'exec 3</dev/null' USR1
ulimit -c 0; ulimit -n "$4"; ulimit -f "$5"; ulimit -t "$6"
set -m
(
  trap : TERM
  exec 8</run/prowess/environment
  echo here
  (exec -c /bin/bash --noprofile --norc -p -c '. /proc/self/fd/8; exec 8<&-; exec "$@"' bash "${@:7}") 2>&7 7>&- 9>&-
  echo "$?" >&9
  kill -s USR1 1
) <"$1" 3<&- &
group=$!
exec 7>&-
trap 'kill -s TERM -- -"$group"' TERM
while ((SECONDS < $3)); do
  read -r -t 1 -u 3 end
  (($? > 128)) && kill -0 "$group" || break
done
read -r -t 0.1 code <&9 || code=137
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do
    [ "$name" = oom_kill ] && [ "$count" -gt 0 ] && told=oom
  done <"$file"
done
if [ "$told" ]; then
  echo "$told" >&9 &
  for try in 1 2 3 4 5; do
    kill -0 "$!" || break
    sleep 0.1
  done
fi
exit "$code"
"#;

/// The first process and its arguments, for a command in this directory inside.
pub(super) fn first_process(command: &Command, directory: String) -> Vec<String> {
    let limits = &command.limits;
    let time = limits.timeout.min(MAX_TIMEOUT).as_secs() + 1;
    let mut line: Vec<String> = ["/bin/bash", "-p", "-c"].map(Into::into).into();
    line.extend([SCRIPT.trim().to_owned(), "bash".to_owned()]);
    line.extend([stdin_inside(&command.stdin), directory]);
    let numbers = [time + limits.grace.as_secs() + SLACK, limits.open_files, limits.file_size / 1024, time];
    line.extend(numbers.map(|number| number.to_string()));
    line.extend([command.shell.clone(), "-lc".to_owned(), command.line.clone()]);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::container::directory::INSIDE;

    #[test]
    fn the_script_knows_its_files_and_codes() {
        for part in ["life", "told", "environment"] {
            assert!(SCRIPT.contains(&format!("{INSIDE}/{part}")), "{part}");
        }
        for code in [NO_LIFE, NO_DIRECTORY] {
            assert!(SCRIPT.contains(&format!("exit {code}\n")), "{code}");
        }
    }

    #[test]
    fn the_command_comes_last_and_whole() {
        let command = Command::new("/srv/w1", "skills/pdf", "echo \"it's\" $HOME");
        let line = first_process(&command, "/skills/pdf".to_owned());
        assert_eq!(line[5..7], ["/dev/null", "/skills/pdf"]);
        assert_eq!(line[7..11], ["123", "1024", "262144", "61"]);
        assert_eq!(line[11..], ["/bin/bash", "-lc", "echo \"it's\" $HOME"]);
    }
}
