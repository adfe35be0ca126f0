import { useState } from "preact/hooks";
import { say } from "../say";
import { count, line } from "../text";
import { Icon } from "./Icon";

/** How much of a long text is shown at first, and with each click. */
const FIRST = { lines: 40, characters: 6000 };
const MORE = 200_000;

/** Where the first part of a text ends. */
export function firstPart(text: string, lines: number, characters: number): number {
  let end = 0;
  for (let n = 0; n < lines; n += 1) {
    const next = text.indexOf("\n", end);
    if (next < 0) {
      end = text.length;
      break;
    }
    end = next + 1;
  }
  return Math.min(end, characters, text.length);
}

export async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let this page copy. Select the text instead.", true);
  }
}

/** Text in a fixed font: code, output, a file. A long one is cut, with a button to see more. */
export function Code({ text, name = "", isWhole = false, tone }: { text: string; name?: string; isWhole?: boolean; tone?: "error" }) {
  const first = firstPart(text, FIRST.lines, FIRST.characters);
  const [extra, setExtra] = useState(0);
  const end = isWhole ? text.length : Math.min(text.length, first + extra);
  const label = name ? line(name) : "text";
  return (
    <div class={`code ${tone ?? ""}`}>
      <div class="code-bar">
        <span class="code-name">{label === "text" ? "" : label}</span>
        <button type="button" class="icon-button small" aria-label="Copy the text" title="Copy" onClick={() => copy(text)}>
          <Icon name="copy" />
        </button>
      </div>
      <pre tabIndex={0} role="group" aria-label={label === "text" ? "Text" : `Text: ${label}`} dir="auto"><code>{text.slice(0, end)}</code></pre>
      {end < text.length && (
        <button type="button" class="show-more" onClick={() => setExtra(extra + MORE)}>
          Show more ({count(text.length - end, "character")})
        </button>
      )}
    </div>
  );
}
