// Renders Markdown as Preact nodes. Raw HTML stays text, and no foreign image is loaded.
import { Lexer, type Token, type Tokens } from "marked";
import { Component, type ComponentChild, type ComponentChildren, type VNode } from "preact";
import { prose } from "./text";
import { Code } from "./views/Code";

/** A longer text is shown as it is. */
const MAX_MARKDOWN = 100_000;
/** So is a text with more of these: the parser's time for them grows with their square. */
const MAX_UNDERSCORES = 6000;
/** Deeper nesting is shown as it is. */
const MAX_DEPTH = 16;

const ENTITIES: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…",
  mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", times: "×", deg: "°", plusmn: "±",
  rarr: "→", larr: "←", uarr: "↑", darr: "↓", middot: "·", bull: "•", euro: "€", pound: "£", sect: "§", laquo: "«",
  raquo: "»", le: "≤", ge: "≥", ne: "≠",
};

/** Replaces HTML entities, as Markdown has them in its text. */
export function entities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] ?? whole : whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
  });
}

/** The address of a link, if it may be followed: absolute, with a harmless scheme. */
export function safeLink(address: string): string | null {
  try {
    const url = new URL(entities(address));
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** The path of a file that the thread has, if that is what a link names. */
export function filePath(address: string): string | null {
  const path = entities(address).replace(/^sandbox:/, "");
  if (!/^\/(project|work)\/./.test(path)) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

export interface Links {
  /** Shows a file of the thread. Without it, a link to a file is text. */
  openFile?: (path: string) => void;
  /** Shows a version of an artifact. */
  openArtifact?: (name: string, version: number) => void;
}

/** The blocks of a text. A parser that fails leaves the text as it is. */
export function blocks(text: string): Token[] | null {
  if (text.length > MAX_MARKDOWN || text.split("_").length > MAX_UNDERSCORES) return null;
  try {
    return new Lexer({ gfm: true }).lex(text);
  } catch {
    return null;
  }
}

export function Markdown({ text: given, links = {} }: { text: string; links?: Links }) {
  const text = prose(given);
  const tokens = blocks(text);
  if (!tokens) return <pre class="plain" dir="auto">{text}</pre>;
  const levels = headingLevels(tokens);
  return (
    <div class="markdown">
      {tokens.map((token, index) => <Block key={index} token={token} links={links} level={levels[index] ?? 0} />)}
    </div>
  );
}

/** The level of each heading: the first is 3, below the page's own headings, and no level is left out. */
export function headingLevels(tokens: Token[]): number[] {
  const above: number[] = [];
  return tokens.map((token) => {
    if (token.type !== "heading") return 0;
    while ((above.at(-1) ?? 0) >= token.depth) above.pop();
    above.push(token.depth);
    return Math.min(6, above.length + 2);
  });
}

/** One block. While a text streams, only its last block changes. */
class Block extends Component<{ token: Token; links: Links; level: number }> {
  override shouldComponentUpdate(next: { token: Token; level: number }) {
    const { token, level } = this.props;
    return next.token.raw !== token.raw || next.token.type !== token.type || next.level !== level;
  }

  render() {
    return render(this.props.token, this.props.links, 0, this.props.level);
  }
}

function all(tokens: Token[] | undefined, links: Links, depth: number): ComponentChild[] {
  return (tokens ?? []).map((token) => render(token, links, depth + 1));
}

function render(token: Token, links: Links, depth: number, level = 0): ComponentChild {
  if (depth > MAX_DEPTH) return token.raw;
  const inner = (): ComponentChild[] => all((token as Tokens.Generic).tokens, links, depth);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p dir="auto">{inner()}</p>;
    case "heading": {
      // A heading inside of a list or a quotation is not a part of the outline.
      if (level === 0) return <p class="heading" dir="auto">{inner()}</p>;
      const Name = `h${level}` as "h3";
      return <Name dir="auto">{inner()}</Name>;
    }
    case "code":
      return <Code text={token.text} name={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote":
      return <blockquote dir="auto">{inner()}</blockquote>;
    case "hr":
      return <hr />;
    case "list":
      return list(token as Tokens.List, links, depth);
    case "table":
      return table(token as Tokens.Table, links, depth);
    case "text":
      return token.tokens ? inner() : prose(entities(token.text));
    case "escape":
      return token.text;
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "codespan":
      return <code dir="auto">{token.text}</code>;
    case "br":
      return <br />;
    case "checkbox":
      return null;
    case "link":
      return <Link address={token.href} links={links}>{inner()}</Link>;
    case "image":
      return (
        <Link address={token.href} links={links}>
          {`Image: ${entities(token.text) || token.href}`}
        </Link>
      );
    default:
      // HTML among them.
      return token.raw;
  }
}

function list(token: Tokens.List, links: Links, depth: number): VNode {
  const items = token.items.map((item, index) => (
    <li key={index} dir="auto" class={item.task ? "task" : undefined}>
      {item.task && (
        <input type="checkbox" checked={item.checked ?? false} disabled aria-label={item.checked ? "Done" : "Not done"} />
      )}
      {all(item.tokens, links, depth)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function table(token: Tokens.Table, links: Links, depth: number): VNode {
  const align = (cell: Tokens.TableCell) => (cell.align ? `align-${cell.align}` : undefined);
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>{token.header.map((cell, i) => <th key={i} class={align(cell)}>{all(cell.tokens, links, depth)}</th>)}</tr>
        </thead>
        <tbody>
          {token.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => <td key={j} dir="auto" class={align(cell)}>{all(cell.tokens, links, depth)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Link({ address, links, children }: { address: string; links: Links; children: ComponentChildren }) {
  const path = filePath(address);
  if (path && links.openFile) {
    const open = links.openFile;
    return <button type="button" class="link" title={path} onClick={() => open(path)}>{children}</button>;
  }
  const href = safeLink(address);
  if (!href) return <span class="dead-link" title="This link is not followed.">{children}</span>;
  // The title shows where a link really leads.
  return <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow" dir="auto">{children}</a>;
}
