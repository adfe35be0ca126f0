//! A response that arrives as a stream of events over one connection.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use prowess_agent::ModelDelta;
use prowess_agent::model::ModelErrorKind;
use prowess_base::sse::SseReader;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::HttpOptions;
use super::failure::{Failure, describe};
use super::{Decoder, Progress};

/// How long a provider may take to begin a response, by default.
pub(super) const DEFAULT_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a provider may take to send the first piece of a response, by default.
pub(super) const DEFAULT_FIRST_PIECE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a response may take with all retries, by default.
pub(super) const DEFAULT_RESPONSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long a provider may send nothing in the middle of a response, by default.
pub(super) const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest response in bytes, by default.
pub(super) const DEFAULT_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;
/// The longest event, in bytes. A longer one is not a response of a model.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// How long to wait until the server closes a finished response. A connection that is read to its end can be reused.
const CLOSING: Duration = Duration::from_millis(50);

/// Longer than any response takes, in place of an infinite limit.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A response while it arrives. Dropping it closes the connection.
pub(super) struct ResponseStream<D> {
    bytes: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    events: SseReader,
    decoder: D,
    /// Deltas that were read and not yet returned. Nothing follows an error.
    ready: VecDeque<Result<ModelDelta, Failure>>,
    phase: Phase,
    taken: u64,
    most: u64,
    idle: Duration,
    until: Deadline,
}

/// When a response has to be complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    lasts: Duration,
}

impl Deadline {
    /// This long from now.
    pub(super) fn after(lasts: Duration) -> Self {
        let now = Instant::now();
        Self { at: now.checked_add(lasts).unwrap_or_else(|| now + FAR), lasts }
    }

    pub(super) fn missed(self) -> Failure {
        let seconds = self.lasts.as_secs_f32();
        let message = format!("the response was not complete within {seconds} seconds");
        Failure::new(ModelErrorKind::TimedOut, message).lasting()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// The response is complete, and the server closes the connection.
    Closing,
    Over,
}

impl<D: Decoder> ResponseStream<D> {
    /// Decodes a response from these bytes.
    pub(super) fn new(
        bytes: BoxStream<'static, Result<Bytes, reqwest::Error>>,
        decoder: D,
        options: &HttpOptions,
        until: Deadline,
    ) -> Self {
        Self {
            bytes,
            events: SseReader::new(MAX_EVENT_BYTES),
            decoder,
            ready: VecDeque::new(),
            phase: Phase::Reading,
            taken: 0,
            most: options.max_response_bytes,
            idle: options.idle_timeout,
            until,
        }
    }

    /// The next delta; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Result<ModelDelta, Failure>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            match self.phase {
                Phase::Over => return None,
                Phase::Closing => {
                    self.phase = Phase::Over;
                    let rest = async { while let Some(Ok(_)) = self.bytes.next().await {} };
                    let _ = timeout(CLOSING, rest).await;
                }
                Phase::Reading => self.read().await,
            }
        }
    }

    /// Reads until the first text, reasoning or call of the model. [`ResponseStream::next`] returns all deltas again.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let mut before = VecDeque::new();
        while let Some(delta) = self.next().await {
            let delta = delta?;
            let says_something = !matches!(delta, ModelDelta::Usage(_));
            before.push_back(Ok(delta));
            if says_something {
                break;
            }
        }
        before.append(&mut self.ready);
        self.ready = before;
        Ok(())
    }

    async fn read(&mut self) {
        let silent = Deadline::after(self.idle).at;
        match timeout_at(silent.min(self.until.at), self.bytes.next()).await {
            Ok(Some(Ok(bytes))) => self.take(&bytes),
            Ok(Some(Err(error))) => {
                let failure = Failure::new(ModelErrorKind::Unreachable, connection_broke(error));
                self.end(Some(failure));
            }
            Ok(None) => self.end(None),
            Err(_) if self.until.at <= silent => self.fail(self.until.missed()),
            Err(_) => {
                let silence = format!("the provider sent nothing for {} seconds", self.idle.as_secs_f32());
                self.fail(Failure::new(ModelErrorKind::TimedOut, silence));
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.taken += bytes.len() as u64;
        let mut events = Vec::new();
        let pushed = self.events.push(bytes, &mut events);
        let mut deltas = VecDeque::new();
        for event in events {
            let read = self.decoder.read(&event, &mut deltas);
            self.ready.extend(deltas.drain(..).map(Ok));
            match read {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => return self.phase = Phase::Closing,
                Err(failure) => return self.fail(failure),
            }
        }
        if pushed.is_err() {
            self.fail(
                Failure::malformed(format!("an event is longer than {MAX_EVENT_BYTES} bytes")).lasting(),
            );
        } else if self.taken > self.most {
            self.fail(
                Failure::malformed(format!("the response is longer than {} bytes", self.most)).lasting(),
            );
        }
    }

    /// The connection has closed. A response that is complete by then counts, however the connection closed.
    fn end(&mut self, failure: Option<Failure>) {
        let mut deltas = VecDeque::new();
        let last = self.events.finish().map(|event| self.decoder.read(&event, &mut deltas));
        let ended = match last {
            Some(Ok(Progress::Done)) => Ok(()),
            // An error event of the provider, without the empty line after it.
            Some(Err(error)) if error.kind != ModelErrorKind::Malformed => Err(error),
            // An event that was cut off says no more than `end` does.
            Some(Err(_) | Ok(Progress::More)) | None => {
                self.decoder.end(&mut deltas).map_err(|broken_off| failure.unwrap_or(broken_off))
            }
        };
        self.ready.extend(deltas.into_iter().map(Ok));
        self.phase = Phase::Over;
        if let Err(failure) = ended {
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.phase = Phase::Over;
        self.ready.push_back(Err(failure));
    }
}

fn connection_broke(error: reqwest::Error) -> String {
    format!("the connection broke before the response was complete: {}", describe(error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prowess_agent::message::Content;
    use prowess_agent::model::{ModelResponse, ResponseAssembly};

    use super::*;

    const OPENAI: [&str; 2] = [
        include_str!("../../tests/it/recorded/openai_text.sse"),
        include_str!("../../tests/it/recorded/openai_tools.sse"),
    ];
    const ANTHROPIC: [&str; 2] = [
        include_str!("../../tests/it/recorded/anthropic_text.sse"),
        include_str!("../../tests/it/recorded/anthropic_tools.sse"),
    ];

    /// The response that these pieces of bytes decode to.
    fn read<D: Decoder>(decoder: D, pieces: Vec<Vec<u8>>) -> (ModelResponse, Option<Failure>) {
        let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
        let bytes = futures_util::stream::iter(pieces).boxed();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let until = Deadline::after(Duration::MAX);
            let mut response = ResponseStream::new(bytes, decoder, &HttpOptions::default(), until);
            let mut ends = 0;
            let mut assembly = ResponseAssembly::new("test");
            while let Some(delta) = response.next().await {
                match delta {
                    Ok(delta) => {
                        ends += usize::from(matches!(delta, ModelDelta::Finish(_)));
                        assert!(ends <= 1, "it ends twice");
                        assembly.push(delta);
                    }
                    Err(failure) => return (assembly.finish(), Some(failure)),
                }
            }
            (assembly.finish(), None)
        })
    }

    /// Everything except the message's id, which is new each time.
    fn of(decoder: &str, pieces: Vec<Vec<u8>>) -> (Content, String) {
        let (assembled, failure) = match decoder {
            "openai" => read(crate::openai::ChatDecoder::default(), pieces),
            _ => read(crate::anthropic::MessagesDecoder::default(), pieces),
        };
        let rest = format!("{:?} {:?} {failure:?}", assembled.usage, assembled.finish);
        (assembled.message.content, rest)
    }

    fn recorded() -> impl Iterator<Item = (&'static str, &'static str)> {
        let openai = OPENAI.into_iter().map(|stream| ("openai", stream));
        openai.chain(ANTHROPIC.into_iter().map(|stream| ("anthropic", stream)))
    }

    #[test]
    fn every_byte_on_its_own() {
        for (decoder, stream) in recorded() {
            let pieces = stream.bytes().map(|byte| vec![byte]).collect();
            let whole = of(decoder, vec![stream.as_bytes().to_vec()]);
            assert_eq!(of(decoder, pieces), whole);
            assert!(whole.1.ends_with("None"), "{}", whole.1);
        }
    }

    #[test]
    fn every_single_cut() {
        for (decoder, stream) in recorded() {
            let whole = of(decoder, vec![stream.as_bytes().to_vec()]);
            for cut in 0..stream.len() {
                let (head, tail) = stream.as_bytes().split_at(cut);
                assert_eq!(of(decoder, vec![head.to_vec(), tail.to_vec()]), whole, "cut at {cut}");
            }
        }
    }

    #[test]
    fn ends_of_lines_and_a_byte_order_mark_do_not_matter() {
        for (decoder, stream) in recorded() {
            let whole = of(decoder, vec![stream.as_bytes().to_vec()]);
            for end in ["\r\n", "\r"] {
                let other = format!("\u{feff}{}", stream.replace('\n', end));
                assert_eq!(of(decoder, vec![other.into_bytes()]), whole, "{end:?}");
            }
        }
    }

    #[test]
    fn a_response_that_is_cut_off_anywhere_is_an_error_or_complete() {
        for (decoder, stream) in recorded() {
            let whole = of(decoder, vec![stream.as_bytes().to_vec()]);
            for cut in 0..stream.len() {
                let (content, rest) = of(decoder, vec![stream.as_bytes()[..cut].to_vec()]);
                let is_whole = content == whole.0 && rest.contains("Some(Stop)") && rest.ends_with("None");
                assert!(is_whole || rest.contains("kind: Unreachable"), "cut at {cut}: {rest}");
            }
        }
    }

    #[test]
    fn an_error_event_without_its_empty_line_counts() {
        let openai = "data: {\"error\": {\"message\": \"long\", \"code\": \"context_length_exceeded\"}}";
        let anthropic =
            "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"request_too_large\"}}";
        for (decoder, stream) in [("openai", openai), ("anthropic", anthropic)] {
            for end in ["", "\n"] {
                let (_, rest) = of(decoder, vec![format!("{stream}{end}").into_bytes()]);
                assert!(rest.contains("kind: ContextTooLong"), "{decoder}: {rest}");
            }
            let (_, rest) = of(decoder, vec![stream.as_bytes()[..stream.len() - 1].to_vec()]);
            assert!(rest.contains("kind: Unreachable"), "an event that was cut off says nothing: {rest}");
        }
    }

    proptest! {
        /// However the recorded bytes are cut, the response is the same.
        #[test]
        fn cuts_do_not_matter(which in 0usize..4, cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
            let (decoder, stream) = recorded().nth(which).unwrap();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| stream.as_bytes()[cut[0]..cut[1]].to_vec()).collect();
            prop_assert_eq!(of(decoder, pieces), of(decoder, vec![stream.as_bytes().to_vec()]));
        }

        /// Nothing that a server sends makes it panic.
        #[test]
        fn nonsense_ends(openai in any::<bool>(), lines in proptest::collection::vec(nonsense(), 0..20)) {
            let decoder = if openai { "openai" } else { "anthropic" };
            of(decoder, vec![lines.concat().into_bytes()]);
        }
    }

    /// Events with something wrong: JSON of the wrong shape, or none.
    fn nonsense() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            Just("null"),
            Just("[]"),
            Just("{}"),
            Just("-1"),
            Just("\"x\""),
            Just("[null]"),
            Just("1e300"),
        ];
        let key = prop_oneof![
            Just("choices"),
            Just("usage"),
            Just("error"),
            Just("delta"),
            Just("message"),
            Just("content_block"),
            Just("index"),
        ];
        let kind = prop_oneof![
            Just("message_start"),
            Just("content_block_start"),
            Just("content_block_delta"),
            Just("message_delta"),
            Just("ping"),
            Just("choice"),
        ];
        (key, value, kind).prop_map(|(key, value, kind)| {
            format!("event: {kind}\ndata: {{\"type\": \"{kind}\", \"{key}\": {value}}}\n\n")
        })
    }
}
