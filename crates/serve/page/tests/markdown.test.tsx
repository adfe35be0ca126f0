import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import { blocks, entities, filePath, headingLevels, Markdown, safeLink } from "../src/markdown";

const html = (text: string) => renderToString(<Markdown text={text} links={{ openFile: () => {} }} />);
const ATTRIBUTES = ' target="_blank" rel="noopener noreferrer nofollow" dir="auto"';

test("the usual marks", () => {
  expect(html("a **b** *c* ~~d~~ `e`")).toBe(
    '<div class="markdown"><p dir="auto">a <strong>b</strong> <em>c</em> <del>d</del> <code dir="auto">e</code></p></div>');
  expect(html("- [x] one\n- two")).toContain('<input type="checkbox" checked disabled aria-label="Done"/>');
  expect(html("3. a\n4. b")).toContain('<ol start="3">');
  expect(html("| a | b |\n|--|--:|\n| 1 | 2 |")).toContain('<td dir="auto" class="align-right">2</td>');
  expect(html("```js\nlet a;\n```")).toContain("<code>let a;</code>");
});

test.each([
  "<script>alert(1)</script>", "a <img src=x onerror=alert(1)> b", "<iframe srcdoc='<script>1</script>'></iframe>",
  "<style>*{}</style>", "<a href='javascript:1'>x</a>", "<!-- -->", "<svg onload=alert(1)>", "<b>x</b>",
])("raw HTML stays text: %s", (text) => {
  expect(html(text)).not.toMatch(/<(script|img|iframe|style|a|svg|b|!--)\b/);
  expect(html(text)).toContain("&lt;");
});

test("HTML in a table, a heading, a link and a language is text", () => {
  const hostile = "<img src=x onerror=alert(1)>";
  for (const text of [`| ${hostile} |\n|--|\n| ${hostile} |`, `# ${hostile}`, `[${hostile}](https://a.example)`, `\`\`\`${hostile}\nx\n\`\`\``]) {
    expect(html(text), text).not.toContain("<img");
  }
});

test("only harmless schemes are followed", () => {
  expect(html("[a](https://a.example/b)")).toContain(`<a href="https://a.example/b" title="https://a.example/b"${ATTRIBUTES}>a</a>`);
  expect(safeLink("mailto:a@b.example")).toBe("mailto:a@b.example");
  for (const address of [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java&#115;cript:alert(1)", "java\tscript:alert(1)",
    "data:text/html,x", "vbscript:x", "blob:https://a.example/x", "file:///etc/passwd", "//a.example/x", "/x", "x", "#x", "",
  ]) {
    expect(safeLink(address), address).toBe(null);
    expect(html(`[a](<${address}>)`), address).not.toContain("href");
  }
  expect(html("<javascript:alert(1)>")).not.toContain("href");
});

test("an image is a link", () => {
  expect(html("![the map](https://a.example/i.png)")).toContain(`${ATTRIBUTES}>Image: the map</a>`);
  expect(html("![x](data:image/png;base64,AA)")).not.toMatch(/<img|href/);
});

test("a link to a file of the thread is a button", () => {
  expect(html("[r](/project/a%20b.md)")).toContain('<button type="button" class="link" title="/project/a b.md">r</button>');
  expect(filePath("sandbox:/work/x.csv")).toBe("/work/x.csv");
  expect(filePath("/projects/x")).toBe(null);
  expect(filePath("/project/")).toBe(null);
});

test("entities are characters, but no markup", () => {
  expect(entities("&lt;b&gt; &amp; &#x41; &#66; &copy; &bogus; &#0; &constructor;")).toBe("<b> & A B © &bogus; \ufffd &constructor;");
  expect(html("&lt;b&gt;")).toContain("&lt;b>");
});

test("headings leave no level out", () => {
  expect(headingLevels(blocks("# a\n\n### b\n\n## c\n\n#### d\n\n# e") ?? []).filter((level) => level > 0)).toEqual([3, 4, 4, 5, 3]);
  expect(html("> # a")).toContain('<p class="heading"');
});

test("deep nesting and long texts do not fail", () => {
  expect(html(`${"> ".repeat(300)}x`)).toContain("x");
  expect(html(`${"- ".repeat(300)}x`)).toContain("x");
  expect(html(`${"*".repeat(5000)}x`)).toContain("*x");
  expect(html("[".repeat(5000))).toContain("[");
  expect(html("x".repeat(300_000))).toMatch(/^<pre/);
  expect(html("_a".repeat(45_000))).toMatch(/^<pre/);
});

test("no text turns the text around it", () => {
  expect(html("a\u202eb `\u2066c`")).toBe("<div class=\"markdown\"><p dir=\"auto\">a\\u{202e}b <code dir=\"auto\">\\u{2066}c</code></p></div>");
  expect(html("a&#x202e;b")).toContain("a\\u{202e}b");
  // Persian and Hebrew need these in prose.
  expect(html("می\u200cخواهم \u200f1")).toContain("می\u200cخواهم \u200f1");
});
