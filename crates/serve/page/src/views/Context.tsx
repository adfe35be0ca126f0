import { useEffect } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { count, line, short } from "../text";
import type { PanelProps } from "./Panel";

/** The kinds of parts, in the order of a request. */
const KINDS: [kind: string, name: string][] = [
  ["prompt", "System prompt"], ["overview", "Skills overview"], ["tool", "Tools"], ["skill", "Loaded skills"],
  ["summary", "Summary"], ["request", "Your message"], ["message", "Conversation"], ["other", "Other"],
];
const COUNTED: Record<string, string> = {
  provider: "The model’s provider counted the tokens.",
  tokenizer: "Counted with the model’s tokenizer.",
  estimate: "The numbers are estimates.",
};
const MAX_NAMES = 12;

interface Part {
  name: string;
  tokens: number;
}

/** How full the model's context window is. */
export function Context({ name, state }: PanelProps) {
  const { value, error, again, isLoading } = useLoaded(() => api.context(name), name);
  useEffect(() => {
    if (!isLoading) again();
  }, [state.turnsEnded, state.skills, state.items.length]);
  if (error && !value) return <p class="error-text" role="alert">{error}</p>;
  if (!value) return <p class="hint" role="status">Loading…</p>;

  const known = new Set(KINDS.map(([kind]) => kind));
  const groups = KINDS.map(([kind, title]) => {
    const parts = summedUp(value.parts.filter((part) => part.kind === kind || (kind === "other" && !known.has(part.kind))));
    return { kind, title, parts, tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0) };
  }).filter(({ tokens }) => tokens > 0);
  const whole = value.window ?? value.tokens;
  const share = (tokens: number) => (whole > 0 ? (100 * tokens) / whole : 0);
  const percent = Math.round(share(value.tokens));
  return (
    <>
      <h2 class="panel-title">
        Context window
        <span class="muted">{value.window ? `${percent} % full` : ""}</span>
      </h2>
      <p class="big-number">
        {short(value.tokens)} <span class="muted">{value.window ? `of ${short(value.window)} tokens` : "tokens; the size of the window is not known"}</span>
      </p>
      <div class="meter" role="img" aria-label={`${count(value.tokens, "token")}${value.window ? ` of ${value.window.toLocaleString("en")}, ${percent} % full` : ""}`}>
        {groups.map(({ kind, tokens }) => <span key={kind} class={`part ${kind}`} style={{ width: `${share(tokens)}%` }} />)}
      </div>
      <table class="parts">
        <caption class="unseen">What makes up the next request</caption>
        <thead class="unseen"><tr><th>Part</th><th>Tokens</th><th>Share</th></tr></thead>
        <tbody>
          {groups.map(({ kind, title, parts, tokens }) => (
            <tr key={kind}>
              <th scope="row"><span class={`key ${kind}`} aria-hidden="true" />{title}
                {parts.length > 1 && <Names kind={kind} parts={parts} />}
                {parts.length === 1 && kind === "skill" && <span class="names" dir="auto">{line(shortName(kind, parts[0]?.name ?? ""))}</span>}
              </th>
              <td class="number">{short(tokens)}</td>
              <td class="number muted">{share(tokens).toFixed(1)} %</td>
            </tr>
          ))}
          {value.free !== null && (
            <tr>
              <th scope="row"><span class="key free" aria-hidden="true" />Free</th>
              <td class="number">{short(value.free)}</td>
              <td class="number muted">{share(value.free).toFixed(1)} %</td>
            </tr>
          )}
        </tbody>
      </table>
      <p class="hint">{COUNTED[value.counted] ?? COUNTED["estimate"]}</p>
    </>
  );
}

/** Parts of the same name as one part. */
export function summedUp(parts: Part[]): Part[] {
  const byName = new Map<string, number>();
  for (const { name, tokens } of parts) byName.set(name, (byName.get(name) ?? 0) + tokens);
  return [...byName].map(([name, tokens]) => ({ name, tokens }));
}

/** The server says what a part is, as in "the text of skill `tides`". Below a title, the name is enough. */
function shortName(kind: string, name: string): string {
  const own = kind === "prompt" ? /\(([^()]+)\)$/ : kind === "tool" || kind === "skill" ? /`([^`]+)`$/ : null;
  return own?.exec(name)?.[1] ?? name;
}

function Names({ kind, parts }: { kind: string; parts: Part[] }) {
  const sorted = [...parts].sort((a, b) => b.tokens - a.tokens);
  return (
    <details class="names">
      <summary>{parts.length} parts</summary>
      <ul class="plain-list">
        {sorted.slice(0, MAX_NAMES).map(({ name, tokens }, index) => (
          <li key={index}><span dir="auto">{line(shortName(kind, name))}</span> <span class="muted number">{short(tokens)}</span></li>
        ))}
        {sorted.length > MAX_NAMES && <li class="muted">and {sorted.length - MAX_NAMES} more</li>}
      </ul>
    </details>
  );
}
