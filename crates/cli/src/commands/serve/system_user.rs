//! Who runs a command, as the system knows them. The audit log says it.

use std::io::Read as _;

use serde_json::{Value, json};

/// The accounts of the system.
const ACCOUNTS: &str = "/etc/passwd";
/// How many bytes of them are read.
const MAX_ACCOUNTS: u64 = 4 << 20;

/// An entry of the audit log with who did it on the command line.
pub(crate) fn noted(mut detail: Value) -> Value {
    detail["system_user"] = json!(name());
    if let Some(before) = before_sudo() {
        detail["sudo_user"] = json!(before);
    }
    detail
}

/// The name of the user who runs this process, or the number if it has none.
fn name() -> String {
    let number = rustix::process::getuid().as_raw();
    let mut text = String::new();
    let read =
        std::fs::File::open(ACCOUNTS).and_then(|file| file.take(MAX_ACCOUNTS).read_to_string(&mut text));
    let name = read.ok().and_then(|_| name_of(&text, number).map(str::to_owned));
    name.unwrap_or_else(|| number.to_string())
}

/// Who called sudo to become this user, as sudo says.
fn before_sudo() -> Option<String> {
    std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty())
}

fn name_of(accounts: &str, number: u32) -> Option<&str> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n";
        assert_eq!(name_of(accounts, 1000), Some("ada"));
        assert_eq!((name_of(accounts, 0), name_of(accounts, 7)), (Some("root"), None));
    }
}
