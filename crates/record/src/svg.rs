//! Draws a film as an animated SVG.
//!
//! Without animation, the picture is the last screen. Animations show earlier rows and hide later ones. So a viewer without
//! animations shows the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::film::{Film, Shown};
use crate::paint::{BACKGROUND, FOREGROUND, FRAME, TITLE};
use crate::row::{Row, Run};
use crate::{Kind, Picture};

/// The size of a character, in tenths of a pixel across, and in pixels down.
const ADVANCE: u32 = 84;
const LINE: usize = 19;
/// Where the foot of a row's letters stands.
const BASE: usize = 14;
/// Around the screen, and above it.
const MARGIN: usize = 14;
const BAR: usize = 34;

/// The picture.
pub(crate) fn drawn(film: &Film, picture: Picture<'_>) -> String {
    let is_moving = picture.kind == Kind::Moving;
    let top = film.top();
    let is_drawn = |shown: &Shown<'_>| is_moving || (shown.until.is_none() && shown.row >= top);
    let shown: Vec<Shown<'_>> = film.shown().filter(is_drawn).collect();
    let rows = shown.iter().map(|shown| shown.row + 1).max().unwrap_or(1);
    let rows = rows.saturating_sub(top).clamp(1, usize::from(picture.rows));
    // A screen that was cleared had more rows than it has in the end.
    let rows = if is_moving { film_rows(&shown, film).clamp(rows, usize::from(picture.rows)) } else { rows };

    let inner = (u32::from(picture.columns) * ADVANCE).div_ceil(10) as usize;
    let (width, height) = (inner + 2 * MARGIN, BAR + rows * LINE + MARGIN);
    let title = escaped(picture.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{STYLE}"
    );
    if is_moving {
        svg.push_str(&motion(film));
    }
    let _ = writeln!(
        svg,
        "</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"9\" fill=\"{}\" stroke=\"{}\"/>",
        width - 1,
        height - 1,
        hex(BACKGROUND),
        hex(FRAME)
    );
    for (at, colour) in ["#f07178", "#e5c07b", "#7fd88f"].iter().enumerate() {
        let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"17\" r=\"5.5\" fill=\"{colour}\"/>", 20 + 19 * at);
    }
    let _ = writeln!(
        svg,
        "<text class=\"t\" x=\"{}\" y=\"21\" fill=\"{}\">{title}</text>",
        width / 2,
        hex(TITLE)
    );

    let repeated = repeated(&shown);
    if !repeated.is_empty() {
        svg.push_str("<defs>\n");
        for (number, text) in &repeated {
            let _ = writeln!(svg, "<g id=\"r{number}\">{}</g>", row(text));
        }
        svg.push_str("</defs>\n");
    }
    // What is outside of an inner picture is not seen.
    let _ = writeln!(
        svg,
        "<svg x=\"{MARGIN}\" y=\"{BAR}\" width=\"{inner}\" height=\"{}\">\n<g class=\"m\" fill=\"{}\" transform=\"translate(0 {})\">",
        rows * LINE,
        hex(FOREGROUND),
        offset(top)
    );
    for shown in &shown {
        let (y, when) = (shown.row * LINE, if is_moving { when(shown) } else { String::new() });
        let _ = if repeated.contains_key(&shown.number) {
            writeln!(svg, "<use href=\"#r{}\" y=\"{y}\"{when}/>", shown.number)
        } else {
            writeln!(svg, "<g transform=\"translate(0 {y})\"{when}>{}</g>", row(shown.text))
        };
    }
    svg.push_str("</g>\n</svg>\n</svg>\n");
    svg
}

const STYLE: &str = "\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;\
font-size:14px;white-space:pre}
.t{text-anchor:middle;font-size:12px}
.b{font-weight:700}
.d{opacity:.6}
.i{font-style:italic}
.u{text-decoration:underline}
";

/// The rows that the screen has at most, seen from where it stands.
fn film_rows(shown: &[Shown<'_>], film: &Film) -> usize {
    let top_at = |time: Duration| {
        let moves = film.moves();
        moves[..moves.partition_point(|(at, _)| *at <= time)].last().map_or(0, |(_, top)| *top)
    };
    shown.iter().map(|shown| (shown.row + 1).saturating_sub(top_at(shown.from))).max().unwrap_or(1)
}

/// Texts that are drawn more than once.
fn repeated<'f>(shown: &[Shown<'f>]) -> BTreeMap<usize, &'f Row> {
    let mut counts: BTreeMap<usize, (usize, &Row)> = BTreeMap::new();
    for shown in shown {
        counts.entry(shown.number).or_insert((0, shown.text)).0 += 1;
    }
    counts
        .into_iter()
        .filter(|(_, (count, _))| *count > 1)
        .map(|(number, (_, text))| (number, text))
        .collect()
}

/// What hides and shows rows, and moves the roll.
fn motion(film: &Film) -> String {
    let length = film.length();
    let mut text = String::from(
        "@keyframes x{from,to{visibility:hidden}}\n@keyframes y{from,to{visibility:visible}}\n\
         .y{visibility:hidden}\n",
    );
    if film.moves().len() > 1 {
        text.push_str("@keyframes m{");
        for (at, top) in film.moves() {
            let percent = 100.0 * at.as_secs_f64() / length.as_secs_f64().max(0.001);
            let _ = write!(text, "{percent:.3}%{{transform:translate(0,{}px)}}", offset(*top));
        }
        let _ = writeln!(text, "}}\n.m{{animation:m {} step-end}}", seconds(length));
    }
    text.push_str("@media (prefers-reduced-motion:reduce){*{animation:none!important}}\n");
    text
}

/// When a row is to be seen: from a time on, or between two.
fn when(shown: &Shown<'_>) -> String {
    match shown.until {
        None if shown.from.is_zero() => String::new(),
        None => format!(" style=\"animation:x {}\"", seconds(shown.from)),
        Some(until) => format!(
            " class=\"y\" style=\"animation:y {} {}\"",
            seconds(until.saturating_sub(shown.from)),
            seconds(shown.from)
        ),
    }
}

fn seconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// How far the roll is moved up.
fn offset(top: usize) -> String {
    if top == 0 { "0".to_owned() } else { format!("-{}", top * LINE) }
}

fn row(row: &Row) -> String {
    row.runs.iter().map(run).collect()
}

fn run(run: &Run) -> String {
    let (x, width) = (tenths(u32::from(run.column) * ADVANCE), tenths(u32::from(run.width) * ADVANCE));
    let mut text = String::new();
    if let Some(paper) = run.look.paper {
        let _ = write!(text, "<rect x=\"{x}\" width=\"{width}\" height=\"{LINE}\" fill=\"{}\"/>", hex(paper));
    }
    if run.text.trim().is_empty() && !run.look.is_underlined {
        return text;
    }
    let ink = run.look.ink.map_or_else(String::new, |ink| format!(" fill=\"{}\"", hex(ink)));
    let look = [
        (run.look.is_bold, 'b'),
        (run.look.is_dim, 'd'),
        (run.look.is_italic, 'i'),
        (run.look.is_underlined, 'u'),
    ];
    let class: Vec<String> = look.iter().filter(|(is, _)| *is).map(|(_, class)| class.to_string()).collect();
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", class.join(" ")) };
    // The length keeps columns where they are, whatever font there is.
    let _ = write!(
        text,
        "<text x=\"{x}\" y=\"{BASE}\" textLength=\"{width}\"{ink}{class}>{}</text>",
        escaped(&run.text)
    );
    text
}

fn tenths(number: u32) -> String {
    if number.is_multiple_of(10) {
        (number / 10).to_string()
    } else {
        format!("{}.{}", number / 10, number % 10)
    }
}

fn hex(colour: u32) -> String {
    format!("#{colour:06x}")
}

/// Text for XML, which cannot have every character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whether a parser that others wrote takes a picture.
#[cfg(test)]
pub(crate) fn check(svg: &str) {
    use std::io::Write as _;
    let mut python = std::process::Command::new("python3")
        .args(["-c", "import sys, xml.etree.ElementTree as e; e.parse(sys.stdin.buffer)"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    python.stdin.take().unwrap().write_all(svg.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success(), "{svg}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn picture(kind: Kind) -> Picture<'static> {
        Picture { columns: 20, rows: 4, title: "prowess", kind }
    }

    fn film(written: &[(u64, &str)]) -> Film {
        let mut film = Film::new(20, 4).unwrap();
        for (at, text) in written {
            film.show(Duration::from_millis(*at), text.as_bytes());
        }
        film
    }

    #[test]
    fn a_moving_picture() {
        let film = film(&[
            (0, "\u{1b}[1;32mok\u{1b}[0m  \u{1b}[7m inverse \u{1b}[0m\r\n"),
            (500, "潮汐 \u{1b}[2;3mdim\u{1b}[0m\r\nwait"),
            (900, "\r\u{1b}[Kone\r\ntwo\r\nthree"),
        ]);
        let svg = drawn(&film, picture(Kind::Moving));
        check(&svg);
        insta::assert_snapshot!(svg);
    }

    #[test]
    fn a_still_picture_is_the_last_screen() {
        let film = film(&[(0, "gone\r\n"), (100, "1\r\n2\r\n3\r\n"), (200, "4")]);
        let svg = drawn(&film, picture(Kind::Still));
        check(&svg);
        assert!(svg.contains(">4</text>") && !svg.contains("gone") && !svg.contains("keyframes"), "{svg}");
    }

    #[test]
    fn half_a_minute_of_a_busy_screen_is_a_light_file() {
        let mut film = Film::new(90, 32).unwrap();
        let mut written = String::new();
        for step in 0..500_u64 {
            let word = ["tide", "harbour", "almanac", "moon"][usize::try_from(step % 4).unwrap()];
            written.push_str(&format!("\u{1b}[36m{word}\u{1b}[0m {step} "));
            if step % 8 == 7 {
                written.push_str("\r\n");
            }
            // A line that goes on, with a region below that changes, as a conversation has it.
            film.show(Duration::from_millis(80 * step), written.as_bytes());
            written = format!("\u{1b}7\r\n\u{1b}[2mworking {step}\u{1b}[0m\u{1b}8");
        }
        let svg = drawn(&film, Picture { columns: 90, rows: 32, title: "prowess", kind: Kind::Moving });
        assert!(svg.len() < 300 * 1024, "{} bytes", svg.len());
    }

    proptest! {
        // Each case is one process that parses many pictures.
        #![proptest_config(ProptestConfig::with_cases(4))]
        #[test]
        fn whatever_is_written_the_picture_is_well_formed(
            written in prop::collection::vec((any::<String>(), prop::collection::vec(any::<u8>(), 0..200)), 20)
        ) {
            let pictures = written.iter().map(|(text, bytes)| {
                let mut film = film(&[(0, text)]);
                film.show(Duration::from_secs(1), bytes);
                film.show(Duration::from_secs(2), "<&>\"'\u{1b}[4m  \u{1b}[48;5;200m \r\n".as_bytes());
                drawn(&film, Picture { title: text, ..picture(Kind::Moving) })
            });
            check(&format!("<all>{}</all>", pictures.collect::<String>()));
        }
    }
}
