//! How a conversation is printed: on a screen, in a pipe, or as JSON.

mod json;
mod pipe;
mod screen;

use std::io;

pub(crate) use self::json::JsonView;
pub(crate) use self::pipe::PipeView;
pub(crate) use self::screen::ScreenView;
use super::events::ChatEvent;
use super::input_display::InputDisplay;

/// Shows what happens.
pub(crate) trait View: Send {
    /// Something events.
    fn show(&mut self, event: &ChatEvent) -> io::Result<()>;

    /// Lines that a person asked for, made and safe.
    fn lines(&mut self, lines: &[String]) -> io::Result<()>;

    /// What a person types, where somebody can.
    fn display(&mut self, _: &InputDisplay) -> io::Result<()> {
        Ok(())
    }

    /// The columns that there are, on a screen.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Time has passed.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A turn begins, or goes on.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Nothing more happens until a person has typed something.
    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }
}
