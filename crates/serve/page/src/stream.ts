// The event stream of a thread: reads server-sent events, and resumes after the last numbered one.
import { ApiError, eventsUrl, failure, signedOut } from "./api";
import type { StreamEvent } from "./types";

export interface ServerEvent {
  id: string | null;
  event: string;
  data: string;
}

/** Cuts a stream of text into server-sent events. */
export class EventParser {
  private rest = "";
  private id: string | null = null;
  private event = "";
  private data: string[] = [];

  /** Takes a piece of the stream, and returns the events that it completes. */
  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    // A carriage return at the end may be the first half of a line end.
    const text = this.rest + piece;
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line !== "") {
        this.field(line);
        continue;
      }
      if (this.data.length > 0) {
        events.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
      }
      this.id = null;
      this.event = "";
      this.data = [];
    }
    return events;
  }

  private field(line: string) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id") this.id = value;
  }
}

/** The event of the thread in a server-sent event, or null if there is none. */
export function threadEvent(event: ServerEvent): StreamEvent | null {
  try {
    const data = JSON.parse(event.data);
    return typeof data === "object" && data !== null ? { type: event.event, ...data } : null;
  } catch {
    return null;
  }
}

export type Link = "connecting" | "open" | "lost";

export interface Watcher {
  events(events: StreamEvent[]): void;
  link(link: Link): void;
  /** The thread cannot be watched any more. */
  failed(error: ApiError): void;
}

/** The server sends a comment every 15 seconds. A stream that is silent for longer is dead. */
const SILENCE = 40_000;
/** How long to wait before another attempt: at first, and at most. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/** How long to wait before this attempt. The random part keeps many clients from returning at the same moment. */
export function waitBefore(attempt: number, random = Math.random()): number {
  return Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt) * (0.5 + random / 2);
}

/** Follows a thread's events after a number, until the signal aborts. */
export async function follow(thread: string, after: number, watcher: Watcher, signal: AbortSignal): Promise<void> {
  let last = after;
  let attempt = 0;
  while (!signal.aborted) {
    const inner = new AbortController();
    const stop = () => inner.abort();
    signal.addEventListener("abort", stop);
    // A device that goes to sleep or changes its network often does not report that the connection is gone.
    window.addEventListener("offline", stop);
    let watchdog = setTimeout(stop, SILENCE);
    try {
      watcher.link("connecting");
      const response = await fetch(eventsUrl(thread, last), {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(last) },
        cache: "no-store", credentials: "same-origin", signal: inner.signal,
      });
      if (!response.ok || !response.body) throw await failure(response);
      watcher.link("open");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        attempt = 0;
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, SILENCE);
        const events = parser.push(value).map(threadEvent).filter((event) => event !== null);
        for (const event of events) {
          if ("number" in event) last = Math.max(last, event.number);
        }
        if (events.length > 0) watcher.events(events);
        // The server has dropped pieces for us, and begins again where we are.
        if (events.some((event) => event.type === "resume")) break;
      }
    } catch (error) {
      if (error instanceof ApiError && [400, 401, 403, 404, 410].includes(error.status)) {
        if (error.status === 401) signedOut();
        else if (!signal.aborted) watcher.failed(error);
        return;
      }
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener("abort", stop);
      window.removeEventListener("offline", stop);
      inner.abort();
    }
    if (signal.aborted) return;
    // A stream that ends once is nothing to report: servers restart, and proxies close long connections.
    if (attempt > 0) watcher.link("lost");
    await pause(waitBefore(attempt), signal);
    attempt += 1;
  }
}

/** Waits, but not longer than until the network is back or the page is visible again. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      window.removeEventListener("online", done);
      document.removeEventListener("visibilitychange", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
    window.addEventListener("online", done);
    document.addEventListener("visibilitychange", done);
  });
}
