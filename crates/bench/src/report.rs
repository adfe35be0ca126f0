//! The report: rows with bars, as a table for people.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The results of one invocation, as written to a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) repetitions: usize,
    pub(crate) rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// The number of skills, rules, files, runs, steps, threads or messages.
    #[serde(rename = "skills")]
    pub(crate) count: usize,
    pub(crate) unit: Unit,
    /// The lowest value of all repetitions; `None` if it could not be measured.
    pub(crate) measured: Option<f64>,
    /// The lowest possible cost in the same invocation, usually that of reading the same files.
    pub(crate) floor: Option<f64>,
    /// The measurement divided by the floor.
    pub(crate) ratio: Option<f64>,
    pub(crate) bar: Option<Bar>,
}

/// The unit of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Us,
    Ms,
    KiB,
    MiB,
    /// A count.
    Things,
}

/// The limit that a measurement must meet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bar {
    /// At most this many times the floor.
    Floors(f64),
    /// At most this value.
    Most(f64),
}

impl Row {
    /// Whether the row meets its bar. A row without a bar does; a row without a value does not.
    pub(crate) fn is_met(&self) -> bool {
        match (self.measured, self.bar) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(measured), Some(Bar::Most(most))) => measured <= most,
            (Some(_), Some(Bar::Floors(times))) => self.ratio.is_some_and(|ratio| ratio <= times),
        }
    }

    /// The value that can be compared between machines: the ratio, or the memory.
    fn comparable(&self) -> Option<f64> {
        match self.unit {
            Unit::Us | Unit::Ms => self.ratio,
            Unit::KiB | Unit::MiB => self.measured,
            Unit::Things => None,
        }
    }

    fn cells(&self, baseline: Option<&Report>) -> Vec<String> {
        let amount = |value: f64| match self.unit {
            Unit::Us => format!("{value:.1} µs"),
            Unit::Ms if value < 1.0 => format!("{value:.3} ms"),
            Unit::Ms => format!("{value:.2} ms"),
            Unit::KiB => format!("{value:.1} KiB"),
            Unit::MiB => format!("{value:.1} MiB"),
            Unit::Things => format!("{value:.0}"),
        };
        let optional = |value: Option<String>| value.unwrap_or_default();
        let verdict = match (self.measured, self.bar) {
            (None, _) => "MISSED, not measured",
            (Some(_), None) => "",
            (Some(_), Some(_)) if self.is_met() => "ok",
            (Some(_), Some(_)) => "MISSED",
        };
        let mut cells = vec![
            self.what.clone(),
            thousands(self.count),
            optional(self.measured.map(amount)),
            optional(self.floor.map(amount)),
            optional(self.ratio.map(|ratio| format!("{ratio:.2}×"))),
            optional(self.bar.map(|bar| match bar {
                Bar::Floors(times) => format!("≤ {times}×"),
                Bar::Most(most) => format!("≤ {}", amount(most)),
            })),
            verdict.to_owned(),
        ];
        if let Some(baseline) = baseline {
            let same = |other: &&Row| other.what == self.what && other.count == self.count;
            let before = baseline.rows.iter().find(same).and_then(Self::comparable);
            let change = self.comparable().zip(before).map(|(now, before)| (now / before - 1.0) * 100.0);
            // Adding zero makes -0 positive.
            cells.push(optional(change.map(|percent| format!("{:+.0} %", percent.round() + 0.0))));
        }
        cells
    }
}

impl Report {
    /// The table, with the changes since `baseline` if there is one.
    pub(crate) fn table(&self, baseline: Option<&Self>) -> String {
        let mut header = vec!["what", "count", "measured", "floor", "ratio", "bar", ""];
        header.extend(baseline.map(|_| "against baseline"));
        let mut lines = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        lines.extend(self.rows.iter().map(|row| row.cells(baseline)));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for (at, line) in lines.iter().enumerate() {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 | 6 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if at == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let rule = "-".repeat(*width);
                    text.push_str(&if matches!(column, 0 | 6) {
                        format!("|-{rule}-")
                    } else {
                        format!("|-{rule}:")
                    });
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

fn thousands(count: usize) -> String {
    if count < 1_000 { count.to_string() } else { format!("{},{:03}", count / 1_000, count % 1_000) }
}
