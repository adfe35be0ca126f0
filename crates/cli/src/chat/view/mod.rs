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

/// Shows a conversation.
pub(crate) trait View: Send {
    /// Shows an event.
    fn show(&mut self, event: &ChatEvent) -> io::Result<()>;

    /// Shows lines that a person asked for. They are safe to print.
    fn lines(&mut self, lines: &[String]) -> io::Result<()>;

    /// Shows what the person types.
    fn display(&mut self, _: &InputDisplay) -> io::Result<()> {
        Ok(())
    }

    /// The width of the screen, if there is one.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Redraws what moves, such as a spinner.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A turn starts or continues.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Nothing happens until the person types.
    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }
}
