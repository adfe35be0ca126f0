//! `prowess mcp --print-config`

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::clients::McpClient;
use super::http;
use crate::commands::CommandOutcome;
use crate::terminal::Terminal;

/// Prints the configuration with which `client` starts or finds this server.
pub(super) fn print_config(
    client: McpClient,
    address: Option<SocketAddr>,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let mut err = anstream::stderr();
    if let Some(address) = address {
        if address.port() == 0 {
            bail!("the client needs a fixed port: give --http a port other than 0");
        }
        write!(terminal, "{}", client.http_config(&http::url(address), http::VARIABLE))?;
        terminal.flush()?;
        writeln!(err, "add this to {}; if the file does not exist, create it", client.config_file())?;
        writeln!(err, "{}", client.token_advice(http::VARIABLE))?;
        return Ok(CommandOutcome::Done);
    }
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let configuration =
        client.stdio_config(&program.to_string_lossy(), &arguments(std::env::args().skip(1))?);
    write!(terminal, "{configuration}")?;
    terminal.flush()?;
    writeln!(err, "add this to {}; if the file does not exist, create it", client.config_file())?;
    Ok(CommandOutcome::Done)
}

/// The given options without `--print-config`, with absolute paths: the client may start prowess anywhere.
fn arguments(given: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let absolute = |path: &str| {
        let path = std::path::absolute(Path::new(path)).context("the working directory cannot be read")?;
        anyhow::Ok(path.to_string_lossy().into_owned())
    };
    let (mut arguments, mut given) = (Vec::new(), given);
    while let Some(argument) = given.next() {
        match argument.split_once('=') {
            Some(("--print-config", _)) => {}
            Some((name @ ("--root" | "--workspace"), path)) => {
                arguments.push(format!("{name}={}", absolute(path)?));
            }
            _ if argument == "--print-config" => drop(given.next()),
            _ if matches!(argument.as_str(), "--root" | "--workspace") => {
                arguments.push(argument);
                arguments.extend(given.next().map(|path| absolute(&path)).transpose()?);
            }
            _ => arguments.push(argument),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_given_are_those_printed() {
        let given = [
            "-v",
            "mcp",
            "--root",
            "skills",
            "--print-config",
            "zed",
            "--run",
            "--root=/x",
            "--print-config=zed",
        ];
        let here = std::env::current_dir().unwrap().join("skills");
        let printed = arguments(given.into_iter().map(str::to_owned)).unwrap();
        assert_eq!(printed, ["-v", "mcp", "--root", here.to_str().unwrap(), "--run", "--root=/x"]);
    }
}
