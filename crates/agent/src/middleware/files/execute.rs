//! `execute`: runs a command line where the files are.

use std::time::Duration;

use prowess_backend::ExecuteRequest;

use super::access::FileAccess;
use super::arguments::Execute;
use super::{FileTool, Stop};

impl FileTool {
    pub(super) async fn execute(&self, execute: Execute, access: &FileAccess<'_>) -> Result<String, Stop> {
        let Some(executor) = self.backend.executor() else {
            return Ok("Error: commands cannot be run here.".to_owned());
        };
        access.run(&execute.command).await?;
        let request = ExecuteRequest::new(execute.command, Duration::from_secs(execute.timeout));
        let report = executor.execute(request).await?;
        let end = match report.exit_code {
            Some(code) => format!("[exit code {code}]"),
            None => "[it was killed]".to_owned(),
        };
        let cut = if report.truncated { "\n[the output was truncated]" } else { "" };
        Ok(format!("{}\n{end}{cut}", report.output.trim_end()))
    }
}
