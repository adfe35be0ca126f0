//! Draws a film as an animated SVG.
//!
//! Without animation, the picture is the last screen. Animations show earlier rows and hide later ones. So a viewer without
//! animations shows the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::film::{Film, RowText};
use crate::paint::{BACKGROUND, FOREGROUND, FRAME, TITLE};
use crate::row::{Row, Run};
use crate::{Kind, Picture};

/// The width of a character in tenths of a pixel, and its height in pixels.
const ADVANCE: u32 = 84;
const LINE: usize = 19;
/// The baseline of a row, in pixels.
const BASE: usize = 14;
/// The space around the screen, and above it.
const MARGIN: usize = 14;
const BAR: usize = 34;

/// Draws the picture.
pub(crate) fn draw(film: &Film, picture: Picture<'_>) -> String {
    let is_moving = picture.kind == Kind::Moving;
    let top = film.top();
    let is_drawn = |text: &RowText<'_>| is_moving || (text.until.is_none() && text.row >= top);
    let texts: Vec<RowText<'_>> = film.row_texts().filter(is_drawn).collect();
    let rows = visible_rows(&texts, film, picture);

    let inner = (u32::from(picture.columns) * ADVANCE).div_ceil(10) as usize;
    let (width, height) = (inner + 2 * MARGIN, BAR + rows * LINE + MARGIN);
    let title = escape(picture.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{STYLE}"
    );
    if is_moving {
        svg.push_str(&motion(film));
    }
    svg.push_str("</style>\n");
    draw_window(&mut svg, width, height, &title);

    let repeated = repeated(&texts);
    draw_definitions(&mut svg, &repeated);
    // The inner picture cuts off everything outside it.
    let _ = writeln!(
        svg,
        "<svg x=\"{MARGIN}\" y=\"{BAR}\" width=\"{inner}\" height=\"{}\">\n<g class=\"m\" fill=\"{}\" transform=\"translate(0 {})\">",
        rows * LINE,
        hex(FOREGROUND),
        offset(top)
    );
    for text in &texts {
        let (y, when) = (text.row * LINE, if is_moving { when(text) } else { String::new() });
        let _ = if repeated.contains_key(&text.number) {
            writeln!(svg, "<use href=\"#r{}\" y=\"{y}\"{when}/>", text.number)
        } else {
            writeln!(svg, "<g transform=\"translate(0 {y})\"{when}>{}</g>", row(text.text))
        };
    }
    svg.push_str("</g>\n</svg>\n</svg>\n");
    svg
}

/// The height of the screen in the picture, in rows.
fn visible_rows(texts: &[RowText<'_>], film: &Film, picture: Picture<'_>) -> usize {
    let last = texts.iter().map(|text| text.row + 1).max().unwrap_or(1);
    let rows = last.saturating_sub(film.top()).clamp(1, usize::from(picture.rows));
    match picture.kind {
        // A screen that was cleared had more rows before.
        Kind::Moving => film_rows(texts, film).clamp(rows, usize::from(picture.rows)),
        Kind::Still => rows,
    }
}

/// Draws the frame of the window, its three buttons and its title.
fn draw_window(svg: &mut String, width: usize, height: usize, title: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"9\" fill=\"{}\" stroke=\"{}\"/>",
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
}

/// Defines the texts that the picture repeats.
fn draw_definitions(svg: &mut String, repeated: &BTreeMap<usize, &Row>) {
    if repeated.is_empty() {
        return;
    }
    svg.push_str("<defs>\n");
    for (number, text) in repeated {
        let _ = writeln!(svg, "<g id=\"r{number}\">{}</g>", row(text));
    }
    svg.push_str("</defs>\n");
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

/// The most rows that the screen had at any time.
fn film_rows(texts: &[RowText<'_>], film: &Film) -> usize {
    let top_at = |time: Duration| {
        let moves = film.moves();
        moves[..moves.partition_point(|(at, _)| *at <= time)].last().map_or(0, |(_, top)| *top)
    };
    texts.iter().map(|text| (text.row + 1).saturating_sub(top_at(text.from))).max().unwrap_or(1)
}

/// The texts that occur more than once.
fn repeated<'f>(texts: &[RowText<'f>]) -> BTreeMap<usize, &'f Row> {
    let mut counts: BTreeMap<usize, (usize, &Row)> = BTreeMap::new();
    for text in texts {
        counts.entry(text.number).or_insert((0, text.text)).0 += 1;
    }
    counts
        .into_iter()
        .filter(|(_, (count, _))| *count > 1)
        .map(|(number, (_, text))| (number, text))
        .collect()
}

/// The animations that hide and show rows and move the roll.
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

/// The attributes that show a row from a time on, or between two times.
fn when(text: &RowText<'_>) -> String {
    match text.until {
        None if text.from.is_zero() => String::new(),
        None => format!(" style=\"animation:x {}\"", seconds(text.from)),
        Some(until) => format!(
            " class=\"y\" style=\"animation:y {} {}\"",
            seconds(until.saturating_sub(text.from)),
            seconds(text.from)
        ),
    }
}

fn seconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// How far the roll moves up.
fn offset(top: usize) -> String {
    if top == 0 { "0".to_owned() } else { format!("-{}", top * LINE) }
}

fn row(row: &Row) -> String {
    row.runs.iter().map(run).collect()
}

fn run(run: &Run) -> String {
    let (x, width) = (tenths(u32::from(run.column) * ADVANCE), tenths(u32::from(run.width) * ADVANCE));
    let mut text = String::new();
    if let Some(paper) = run.style.paper {
        let _ = write!(text, "<rect x=\"{x}\" width=\"{width}\" height=\"{LINE}\" fill=\"{}\"/>", hex(paper));
    }
    if run.text.trim().is_empty() && !run.style.is_underlined {
        return text;
    }
    let ink = run.style.ink.map_or_else(String::new, |ink| format!(" fill=\"{}\"", hex(ink)));
    let flags = [
        (run.style.is_bold, 'b'),
        (run.style.is_dim, 'd'),
        (run.style.is_italic, 'i'),
        (run.style.is_underlined, 'u'),
    ];
    let class: Vec<String> = flags.iter().filter(|(is, _)| *is).map(|(_, class)| class.to_string()).collect();
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", class.join(" ")) };
    // The length keeps the columns in place in every font.
    let _ = write!(
        text,
        "<text x=\"{x}\" y=\"{BASE}\" textLength=\"{width}\"{ink}{class}>{}</text>",
        escape(&run.text)
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

/// Escapes text for XML and replaces characters that XML does not allow.
fn escape(text: &str) -> String {
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

/// Checks a picture with the XML parser of Python.
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
            film.write(Duration::from_millis(*at), text.as_bytes());
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
        let svg = draw(&film, picture(Kind::Moving));
        check(&svg);
        insta::assert_snapshot!(svg);
    }

    #[test]
    fn a_still_picture_is_the_last_screen() {
        let film = film(&[(0, "gone\r\n"), (100, "1\r\n2\r\n3\r\n"), (200, "4")]);
        let svg = draw(&film, picture(Kind::Still));
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
            // As in a conversation: a line grows, and a region below it changes.
            film.write(Duration::from_millis(80 * step), written.as_bytes());
            written = format!("\u{1b}7\r\n\u{1b}[2mworking {step}\u{1b}[0m\u{1b}8");
        }
        let svg = draw(&film, Picture { columns: 90, rows: 32, title: "prowess", kind: Kind::Moving });
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
                film.write(Duration::from_secs(1), bytes);
                film.write(Duration::from_secs(2), "<&>\"'\u{1b}[4m  \u{1b}[48;5;200m \r\n".as_bytes());
                draw(&film, Picture { title: text, ..picture(Kind::Moving) })
            });
            check(&format!("<all>{}</all>", pictures.collect::<String>()));
        }
    }
}
