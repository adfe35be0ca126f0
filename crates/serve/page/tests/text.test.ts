import { expect, test } from "vitest";
import { parseCsv } from "../src/csv";
import { bytes, cost, duration, line, plainSpaces, printable, short, start } from "../src/text";
import { firstPart } from "../src/views/Code";
import { summedUp } from "../src/views/Context";
import { kindOf, quiet } from "../src/views/Preview";
import { fileName } from "../src/views/upload";
import { roundUp } from "../src/views/Usage";

test("deceptive characters are spelled out", () => {
  expect(printable("a\u202egpj.exe")).toBe("a\\u{202e}gpj.exe");
  expect(printable("a\u0000b\r\nc\td")).toBe("a\\u{0}b\\u{d}\nc\td");
  expect(printable("שלום 👩‍💻 é")).toBe("שלום 👩‍💻 é");
  expect(line("a\nb\tc")).toBe("a b c");
  expect(start("a😀b", 2)).toBe("a…");
});

test("blanks that the server spells out are blanks again", () => {
  expect(plainSpaces("if x:⏎\\u{20×4}go\\u{20}")).toBe("if x:⏎    go ");
  // The text itself had this, or it would fill the page.
  expect(plainSpaces("\\\\u{20×4} \\u{5c}u{20} \\u{20×999}")).toBe("\\\\u{20×4} \\u{5c}u{20} \\u{20×999}");
});

test("parts of the same name are one part", () => {
  const part = (name: string, tokens: number) => ({ kind: "message", name, tokens });
  expect(summedUp([part("a", 1), part("b", 5), part("a", 2)])).toEqual([{ name: "a", tokens: 3 }, { name: "b", tokens: 5 }]);
});

test("numbers are short", () => {
  expect([0, 999, 1000, 12_345, 99_960, 999_499, 999_500, 12_400_000].map(short)).toEqual(["0", "999", "1k", "12.3k", "100k", "999k", "1M", "12.4M"]);
  expect([0, 999, 1000, 9_940, 123_456, 5e9].map(bytes)).toEqual(["0 B", "999 B", "1.0 kB", "9.9 kB", "123 kB", "5.0 GB"]);
  expect([12, 1500, 61_000, 3_660_000].map(duration)).toEqual(["12 ms", "1.5 s", "1 min 1 s", "1 h 1 min"]);
  expect([cost("0.0123"), cost(null)]).toEqual(["$0.0123", "–"]);
  expect([0, 1, 3, 17, 52, 0.013, 1000].map(roundUp)).toEqual([1, 1, 5, 20, 100, 0.02, 1000]);
});

test("comma-separated values", () => {
  expect(parseCsv('a,"b ""c"", d"\r\n1,\n"x\ny",2', 10)).toEqual({ rows: [["a", 'b "c", d'], ["1", ""], ["x\ny", "2"]], more: false });
  expect(parseCsv("a;b\n1;2\n", 10).rows).toEqual([["a", "b"], ["1", "2"]]);
  expect(parseCsv("\ufeffa\tb", 10).rows).toEqual([["a", "b"]]);
  expect(parseCsv("a\nb\nc", 2)).toEqual({ rows: [["a"], ["b"]], more: true });
  expect(parseCsv('a,"never closed', 10).rows).toEqual([["a", "never closed"]]);
  expect(parseCsv("a,b\n1,", 10).rows).toEqual([["a", "b"], ["1", ""]]);
  expect(parseCsv("", 10)).toEqual({ rows: [], more: false });
});

test("the name of a file decides how it is shown", () => {
  expect(["a.PNG", "a.html", "a.svg", "a.csv", "a.pdf", "a.md", "a.rs", "a", "a.png.html", "a.xml"].map(kindOf))
    .toEqual(["image", "active", "image", "table", "pdf", "markdown", "unknown", "unknown", "active", "unknown"]);
});

test("an upload stays in its directory", () => {
  expect(["a.txt", "../a", "a/b\\c", "..", "", "a\nb"].map(fileName)).toEqual(["a.txt", ".._a", "a_b_c", "file", "file", "a_b"]);
});

test("the first part of a text ends at a line", () => {
  expect(firstPart("a\nb\nc", 2, 100)).toBe(4);
  expect(firstPart("a\nb", 5, 100)).toBe(3);
  expect(firstPart("abcdef", 5, 3)).toBe(3);
});

test("a document connects to nothing", () => {
  expect(quiet(`<p>a</p><IFrame src=x></iframe ><link/rel=preconnect><meta\nhttp-equiv=refresh><base><linked><svg><iframe/></svg>`))
    .toBe(`<p>a</p><x-IFrame src=x></x-iframe ><x-link/rel=preconnect><x-meta\nhttp-equiv=refresh><x-base><linked><svg><x-iframe/></svg>`);
});
