// How texts of others are shown. Nothing here makes HTML: Preact puts every text into a text node.

/** Characters that change the order of a line, or that are invisible. They could make a text look like another. */
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Spells deceptive characters out, as in `\u{202e}`. Line ends and tabs stay. */
export function printable(text: string): string {
  return text.replace(DECEPTIVE, (character) => `\\u{${character.charCodeAt(0).toString(16)}}`);
}

/** The most blanks that one escape stands for here. */
const MAX_BLANKS = 200;

/** The server writes several blanks on one line as `\u{20×4}`. A page can show the blanks. */
export function plainSpaces(text: string): string {
  return text.replace(/(?<!\\)\\u\{20(?:×(\d{1,3}))?\}/g, (whole, number: string | undefined) => {
    const blanks = Number(number ?? 1);
    return blanks <= MAX_BLANKS ? " ".repeat(blanks) : whole;
  });
}

/** Characters that turn or hide the text around them. Prose in some scripts needs the other invisible ones. */
const OVERRIDES = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2060-\u206f\ufff9-\ufffb]/g;

/** A text that people read, with the overrides of its direction spelled out. */
export function prose(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(OVERRIDES, printable);
}

/** The same as `printable`, on one line. */
export function line(text: string): string {
  return printable(text).replace(/[\t\n]+/g, " ");
}

/** The first characters of a text. */
export function start(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "")}…` : text;
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** A number of tokens, short: 940, 12.3k, 1.2M. */
export function short(number: number): string {
  if (number < 1000) return String(number);
  const [value, unit] = number < 999_500 ? [number / 1000, "k"] : [number / 1e6, "M"];
  return `${value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

export function bytes(number: number): string {
  if (number < 1000) return `${number} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = number / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(seconds % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A cost as the server wrote it. It is a decimal number without a currency sign. */
export function cost(value: string | null | undefined): string {
  return value ? `$${value}` : "–";
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

const valid = (at: string) => !Number.isNaN(Date.parse(at));

/** The time of something that happened today, otherwise its day. */
export function when(at: string, now = new Date()): string {
  if (!valid(at)) return "";
  const date = new Date(at);
  return date.toDateString() === now.toDateString() ? TIME.format(date) : DAY.format(date);
}

export function fullTime(at: string): string {
  return valid(at) ? FULL.format(new Date(at)) : "";
}
