import type { Json } from "../types";
import { printable } from "../text";
import { Code } from "./Code";

const MAX_ENTRIES = 50;

/** The arguments of a call: one row for each, with long texts in a fixed font. Everything is exact. */
export function Values({ value }: { value: Json }) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return <Code text={printable(typeof value === "string" ? value : JSON.stringify(value, null, 2))} />;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return <p class="hint">No arguments.</p>;
  return (
    <dl class="values">
      {entries.slice(0, MAX_ENTRIES).map(([name, value]) => (
        <div key={name}>
          <dt>{printable(name)}</dt>
          <dd><Value value={value} /></dd>
        </div>
      ))}
      {entries.length > MAX_ENTRIES && (
        <div><dt>…</dt><dd><Code text={printable(JSON.stringify(Object.fromEntries(entries.slice(MAX_ENTRIES)), null, 2))} /></dd></div>
      )}
    </dl>
  );
}

function Value({ value }: { value: Json }) {
  const text = printable(typeof value === "string" ? value : JSON.stringify(value, null, 2));
  if (text.includes("\n") || text.length > 200) return <Code text={text} />;
  return <code class="value" dir="auto">{text === "" ? "\"\"" : text}</code>;
}

/** The most telling argument of a call, on one line. */
export function summary(value: Json): string {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return typeof value === "string" ? value : "";
  }
  const names = ["command", "path", "file_path", "name", "skill", "query", "pattern", "task", "description", "url"];
  const name = names.find((name) => typeof value[name] === "string");
  const found = name === undefined ? Object.values(value).find((value) => typeof value === "string") : value[name];
  return typeof found === "string" ? found : "";
}
