// Reads comma-separated values, as in RFC 4180, also with semicolons or tabs.

/** The rows of a table, at most `most` of them, and whether there are more. */
export function parseCsv(text: string, most: number, separator = guess(text)): { rows: string[][]; more: boolean } {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  while (at < text.length) {
    if (rows.length === most) return { rows, more: true };
    let value = "";
    if (text[at] === '"') {
      at += 1;
      for (;;) {
        const end = text.indexOf('"', at);
        value += text.slice(at, end < 0 ? text.length : end);
        at = end < 0 ? text.length : end + 1;
        if (end < 0 || text[at] !== '"') break;
        value += '"';
        at += 1;
      }
    }
    const rest = at;
    while (at < text.length && text[at] !== separator && text[at] !== "\n") at += 1;
    row.push(value + text.slice(rest, at).replace(/\r$/, ""));
    const isEnd = at >= text.length || text[at] === "\n";
    // A separator at the very end begins one more value, which is empty.
    if (!isEnd && at + 1 === text.length) row.push("");
    at += 1;
    if (isEnd || at >= text.length) {
      rows.push(row);
      row = [];
    }
  }
  return { rows, more: false };
}

function guess(text: string): string {
  const first = text.slice(0, 10_000).split("\n", 1)[0] ?? "";
  const counts = [",", ";", "\t"].map((separator) => first.split(separator).length);
  return [",", ";", "\t"][counts.indexOf(Math.max(...counts))] ?? ",";
}
