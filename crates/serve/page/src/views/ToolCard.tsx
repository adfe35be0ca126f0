import { useEffect, useRef, useState } from "preact/hooks";
import { duration, line, printable, start } from "../text";
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
export function ToolCard({ call, children }: { call: Call; children?: ComponentChildren }) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  const isOpen = chosen ?? (call.state === "running" && call.progress !== "");
  const { text, icon } = STATES[call.state];
  const told = line(summary(call.arguments));
  const names = [...call.loaded.map((name) => `Loaded ${line(name)}`), ...call.unloaded.map((name) => `Unloaded ${line(name)}`)];
  return (
    <div class={`tool ${call.state}`} data-call={call.id} data-state={call.state}>
      <button type="button" class="tool-head" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        <span class="tool-state"><Icon name={icon} /><span class="unseen">{text}: </span></span>
        <span class="tool-name">{line(call.name)}</span>
        <span class="tool-told" dir="auto">{start(told, 200)}</span>
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
          {call.text !== "" && (
            <>
              <p class="label">{call.state === "failed" ? "Error" : call.state === "refused" ? "What the model reads" : "Answer"}</p>
              <Code text={printable(call.text)} {...(call.state === "failed" && { tone: "error" as const })} />
            </>
          )}
          {call.data !== null && (
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
