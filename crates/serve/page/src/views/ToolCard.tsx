import { useEffect, useRef, useState } from "preact/hooks";
import type { Links } from "../markdown";
import { duration, line, printable, start } from "../text";
import { runOf, type Run } from "../run";
import { replyText, type Call, type CallState } from "../thread";
import type { ComponentChildren } from "preact";
import { Code } from "./Code";
import { Icon, type IconName } from "./Icon";
import { summary, Values } from "./Values";

const STATES: Record<CallState, { text: string; icon: IconName }> = {
  pending: { text: "Starting", icon: "clock" },
  asked: { text: "Waits for a reply", icon: "question" },
  running: { text: "Running", icon: "clock" },
  done: { text: "Done", icon: "check" },
  failed: { text: "Failed", icon: "cross" },
  refused: { text: "Refused", icon: "cross" },
  cut_off: { text: "Did not finish", icon: "stop" },
};

/** A tool call: what was called, its live output, its answer. `children` is the question about it. */
export function ToolCard({ call, links, children }: { call: Call; links: Links; children?: ComponentChildren }) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  const isOpen = chosen ?? (call.state === "running" && call.progress !== "");
  const run = call.state === "done" || call.state === "failed" ? runOf(call.text, call.data) : null;
  const hasFailed = run !== null && run.exitCode !== 0;
  const { text, icon } = STATES[hasFailed ? "failed" : call.state];
  const told = line(summary(call.arguments));
  const names = [...call.loaded.map((name) => `Loaded ${line(name)}`), ...call.unloaded.map((name) => `Unloaded ${line(name)}`)];
  return (
    <div class={`tool ${hasFailed ? "failed" : call.state}`} data-call={call.id} data-state={call.state}>
      <button type="button" class="tool-head" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        <span class="tool-state"><Icon name={icon} /><span class="unseen">{text}: </span></span>
        <span class="tool-name">{line(call.name)}</span>
        <span class="tool-told" dir="auto">{start(told, 200)}</span>
        {run && <ExitCode run={run} />}
        <span class="tool-time">
          {call.state === "running" ? <Running since={call.started} /> : call.milliseconds !== null ? duration(call.milliseconds) : ""}
        </span>
        <span class="chevron"><Icon name="right" /></span>
      </button>
      {isOpen && (
        <div class="tool-body">
          <p class="label">Arguments</p>
          <Values value={call.arguments} />
          {call.progress !== "" && <Progress text={call.progress} />}
          {run && <RunOutput run={run} links={links} />}
          {run && <details class="fold"><summary>What the model reads</summary><Code text={printable(call.text)} name="json" /></details>}
          {!run && call.text !== "" && (
            <>
              <p class="label">{call.state === "failed" ? "Error" : call.state === "refused" ? "What the model reads" : "Answer"}</p>
              <Code text={printable(call.text)} {...(call.state === "failed" && { tone: "error" as const })} />
            </>
          )}
          {!run && call.data !== null && (
            <details class="fold"><summary>Data</summary><Code text={printable(JSON.stringify(call.data, null, 2))} name="json" /></details>
          )}
        </div>
      )}
      {(call.reply || call.approvedBy || names.length > 0) && (
        <p class="tool-note" dir="auto">
          {call.reply && `Reply: ${replyText(call.reply.kind)}${call.reply.message ? ` — ${printable(call.reply.message)}` : ""}. `}
          {call.approvedBy && `Approved by ${line(call.approvedBy)}. `}
          {names.join(" · ")}
        </p>
      )}
      {children}
    </div>
  );
}

function ExitCode({ run }: { run: Run }) {
  const text = run.timedOut ? "timed out" : `exit code ${run.exitCode}`;
  return <span class={run.exitCode === 0 ? "badge good" : "badge bad"}>{text}</span>;
}

/** How many saved files are listed. */
const MAX_SAVED = 100;

/** What a run printed and saved. */
function RunOutput({ run, links }: { run: Run; links: Links }) {
  const { openFile, openArtifact } = links;
  const saved = [
    ...run.artifacts.map(({ name, version }) => ({ text: `${name}, version ${version}`, open: openArtifact && (() => openArtifact(name, version)) })),
    ...run.files.map((path) => ({ text: path, open: openFile && (() => openFile(path)) })),
  ];
  const hasOutput = run.stdout !== "" || run.stderr !== "";
  return (
    <>
      {run.stdout !== "" && <><p class="label">Output</p><Code text={printable(run.stdout)} /></>}
      {run.stderr !== "" && <><p class="label">Error output</p><Code text={printable(run.stderr)} {...(run.exitCode !== 0 && { tone: "error" as const })} /></>}
      {!hasOutput && <p class="hint">The command printed nothing.</p>}
      {saved.length > 0 && (
        <>
          <p class="label">Saved files</p>
          <ul class="plain-list">
            {saved.slice(0, MAX_SAVED).map(({ text, open }, index) => (
              <li key={index}>{open ? <button type="button" class="link" onClick={open}>{line(text)}</button> : line(text)}</li>
            ))}
            {saved.length > MAX_SAVED && <li class="hint">and {saved.length - MAX_SAVED} more</li>}
          </ul>
        </>
      )}
      {run.warnings.map((warning, index) => <p key={index} class="hint" dir="auto">{line(warning)}</p>)}
    </>
  );
}

/** The live output, scrolled to its end. */
function Progress({ text }: { text: string }) {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <>
      <p class="label">Output so far</p>
      <pre ref={box} class="progress" tabIndex={0} role="group" aria-label="Output so far" dir="auto">{printable(text)}</pre>
    </>
  );
}

/** How long a call has been running: it counts by itself. */
export function Running({ since }: { since: string | null }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const milliseconds = since ? Date.now() - Date.parse(since) : 0;
  // The clocks of two machines differ.
  return <span aria-hidden="true">{milliseconds >= 1000 ? duration(Math.floor(milliseconds / 1000) * 1000) : "…"}</span>;
}
