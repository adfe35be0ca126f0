//! Documents as they look, whole and in pieces.

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar as _;

use super::Markdown;

/// The rows of a document, with their styles.
fn styled(text: &str, width: usize) -> Vec<String> {
    let mut markdown = Markdown::new(width);
    let mut rows = markdown.push(text);
    rows.extend(markdown.finish());
    rows
}

/// The rows of a document, without styles.
fn plain(text: &str, width: usize) -> String {
    let rows: Vec<String> =
        styled(text, width).iter().map(|row| anstream::adapter::strip_str(row).to_string()).collect();
    rows.join("\n")
}

/// The rows of a document that comes in pieces which end at these positions.
fn in_pieces(text: &str, width: usize, cuts: &[usize]) -> Vec<String> {
    let mut cuts: Vec<usize> =
        cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    cuts.sort_unstable();
    let (mut markdown, mut rows, mut start) = (Markdown::new(width), Vec::new(), 0);
    for cut in cuts.into_iter().chain([text.len()]) {
        rows.extend(markdown.push(&text[start..cut]));
        start = cut;
    }
    rows.extend(markdown.finish());
    rows
}

const DOCUMENT: &str = "\
# Tides

The **moon** pulls, *and* the sun `pulls less`; see [the almanac](https://example.org/tides) or
<https://example.org>. ~~Never~~ seldom.
Items:
- high water
  twice a day
- low water
  1. spring
  2. neap
- [x] noted

1. one

   with a paragraph
1. two

> A quote that is long enough to be wrapped in it.
> > And one inside.

```rust
fn main() {\n\tprintln!(\"a line that is longer than the screen is wide\");\n}
```
| Port | High | Remark |
|:-----|-----:|:------:|
| Brest | 7.1 m | spring |
| 釜山 | 1.2 m | *small*<br>range |

---
<b>html</b> is text

    indented code

[almanac]: https://example.org/almanac
";

#[test]
fn a_document() {
    insta::assert_snapshot!(plain(DOCUMENT, 48));
}

#[test]
fn a_document_on_a_narrow_screen() {
    insta::assert_snapshot!(plain(DOCUMENT, 24));
}

#[test]
fn styles_are_sequences_that_end_with_their_row() {
    insta::assert_snapshot!(styled("# A **b**\n\n`c` *d **e*** [f](g)\n- h\n```\ni\n```", 40).join("\n").replace('\u{1b}', "␛"), @r"
    ␛[1;4mA b␛[0m

    ␛[36mc␛[0m ␛[3md ␛[0m␛[1;3me␛[0m ␛[34mf␛[0m ␛[2m(g)␛[0m
    ␛[2m• ␛[0mh

      ␛[36mi␛[0m
    ");
}

#[test]
fn a_table_with_many_columns_is_a_list() {
    let table = "| a | b | c | d | e |\n|-|-|-|-|-|\n| some words | some words | some words | some words | |\n| 1 | 2 | 3 | 4 | 5 |\n";
    insta::assert_snapshot!(plain(table, 40), @r"
    a: some words
    b: some words
    c: some words
    d: some words

    a: 1
    b: 2
    c: 3
    d: 4
    e: 5
    ");
}

#[test]
fn a_table_fits() {
    let table = "| Skill | What it does |\n|-|-|\n| csv-report | Profiles a table and writes a report about what is in it |\n| tides | 记录每天的潮汐时间 |\n";
    insta::assert_snapshot!(plain(table, 40), @r"
    Skill      │ What it does
    ───────────┼────────────────────────────
    csv-report │ Profiles a table and writes
               │ a report about what is in
               │ it
    tides      │ 记录每天的潮汐时间
    ");
}

#[test]
fn lines_are_given_as_soon_as_nothing_can_change_them() {
    let mut markdown = Markdown::new(40);
    assert_eq!(markdown.push("# A hea"), [""; 0]);
    assert_eq!(markdown.push("ding\nText"), ["\u{1b}[1;4mA heading\u{1b}[0m"]);
    assert_eq!(markdown.live(), ["", "Text"]);
    assert_eq!(markdown.push(" goes on\n"), [""; 0]);
    assert_eq!(markdown.push("\n"), ["", "Text goes on"]);
    assert_eq!(markdown.push("```\none\ntw"), ["", "  \u{1b}[36mone\u{1b}[0m"]);
    assert_eq!(markdown.live(), ["  \u{1b}[36mtw\u{1b}[0m"]);
    markdown.resize(20);
    assert_eq!(markdown.finish(), ["  \u{1b}[36mtw\u{1b}[0m"]);
    assert_eq!(markdown.finish(), [""; 0]);
}

#[test]
fn text_cannot_act_on_the_terminal() {
    let hostile = "a\u{1b}[2J \u{9b}0m `\u{7}` &#27;[2J &#x202e; [\u{1b}]8;;x\u{1b}\\\\](http://x/\u{1b}c)\n\n```\u{1b}[1m\n\r\u{8}\n```\n| \u{1b} |\n|--|\n| \u{0} |\n<b\u{1b}>";
    let shown = plain(hostile, 60);
    assert!(!shown.chars().any(|c| c != '\n' && prowess_catalog::untrusted::is_unprintable(c)), "{shown:?}");
    assert!(shown.contains("a\\u{1b}[2J") && shown.contains("\\u{202e}"), "{shown}");
    let styles = styled(hostile, 60).concat();
    let sequences: Vec<&str> = styles.split('\u{1b}').skip(1).collect();
    assert!(sequences.iter().all(|rest| rest.starts_with('[') && rest.contains('m')), "{sequences:?}");
}

#[test]
fn long_blocks_do_not_wait_for_their_end() {
    for (line, count) in [
        ("word ", 20_000),
        ("- item\n  more\n", 5_000),
        ("| a | b |\n|-|-|\n", 3_000),
        ("```\n", 9_999),
        ("> quoted\n", 9_999),
        ("x", 100_000),
    ] {
        let text = line.repeat(count);
        let mut markdown = Markdown::new(80);
        let mut longest = 0;
        for piece in text.as_bytes().chunks(1_000) {
            markdown.push(std::str::from_utf8(piece).unwrap());
            longest = longest.max(markdown.source.len() + markdown.line.len());
        }
        assert!(longest < 16 * 1024, "{line:?}: {longest}");
    }
}

/// Pieces of documents, so that what is put together means something.
fn document() -> impl Strategy<Value = String> {
    let pieces = [
        "# ",
        "## b\n",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "  - ",
        "   ",
        "    ",
        "> ",
        "```",
        "```rust\n",
        "~~~\n",
        "`",
        "**",
        "*",
        "_",
        "~~",
        "|",
        "| a | b |\n",
        "|-|:-:|\n",
        "---\n",
        "===\n",
        "[a](b)",
        "[a]: b\n",
        "![i](j)",
        "<br>",
        "<div>\n",
        "&#27;",
        "word ",
        "longerword",
        "潮汐",
        "\t",
        "\r\n",
        "\r",
        "\u{1b}[2J",
        "\\",
        "[ ] ",
        "9999999999. ",
        "é",
        "👩\u{200d}🔬",
        "\u{0}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn text_looks_the_same_however_it_comes(text in document(), width in 0_usize..100, cuts in prop::collection::vec(any::<usize>(), 0..20)) {
        prop_assert_eq!(in_pieces(&text, width, &cuts), styled(&text, width));
    }

    #[test]
    fn long_text_looks_the_same_however_it_comes(
        text in document(), times in 1_usize..100, cuts in prop::collection::vec(any::<usize>(), 0..20)
    ) {
        let text = text.repeat(times);
        prop_assert_eq!(in_pieces(&text, 30, &cuts), styled(&text, 30));
    }

    #[test]
    fn rows_fit_the_screen(text in document(), width in 20_usize..100) {
        let shown = plain(&text, width);
        for row in shown.lines() {
            let columns: usize = row.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(columns <= width, "{}: {:?}", columns, row);
        }
        prop_assert!(!shown.chars().any(|c| c != '\n' && prowess_catalog::untrusted::is_unprintable(c)));
    }

    #[test]
    fn anything_can_be_shown(text in any::<String>(), width in any::<usize>()) {
        let width = width % 300;
        prop_assert_eq!(in_pieces(&text, width, &[text.len() / 2]), styled(&text, width));
    }
}
