// What several views share.
import { useCallback, useEffect, useReducer, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { EMPTY, reduce, type Action, type ThreadState } from "./thread";
import { follow, type Link } from "./stream";
import type { StreamEvent, Thread, ThreadDetail } from "./types";

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function useMedia(query: string): boolean {
  const [matches, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => set(list.matches);
    change();
    list.addEventListener("change", change);
    return () => list.removeEventListener("change", change);
  }, [query]);
  return matches;
}

export function useHash(): string {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const change = () => set(location.hash);
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return hash;
}

export function useOnline(): boolean {
  const [online, set] = useState(navigator.onLine);
  useEffect(() => {
    const change = () => set(navigator.onLine);
    window.addEventListener("online", change);
    window.addEventListener("offline", change);
    return () => {
      window.removeEventListener("online", change);
      window.removeEventListener("offline", change);
    };
  }, []);
  return online;
}

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  isLoading: boolean;
  again: () => void;
}

/** Loads a value when a key changes. Only the last request counts. The old value stays until the new one is there. */
export function useLoaded<T>(load: () => Promise<T>, key: string): Loaded<T> {
  const [state, set] = useState<Omit<Loaded<T>, "again">>({ value: null, error: null, isLoading: true });
  const [round, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    let isLast = true;
    set((old) => ({ ...old, isLoading: true }));
    load().then(
      (value) => isLast && set({ value, error: null, isLoading: false }),
      (error) => isLast && set((old) => ({ ...old, error: errorMessage(error), isLoading: false })),
    );
    return () => {
      isLast = false;
    };
  }, [key, round]);
  return { ...state, again: useCallback(() => again(0 as never), []) };
}

/** The value, once it has not changed for some time. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}

/** How long a poll waits while something happens, and at most while nothing does. */
const OFTEN = 5_000;
const RARELY = 30_000;

/** How long a poll waits after it waited this long. */
export function nextWait(before: number, isLively: boolean): number {
  return isLively ? OFTEN : Math.min(RARELY, before * 1.5);
}

/**
 * Calls a function again and again while the page is visible, and when it becomes visible: often while something happens
 * or the person does something, and less and less often otherwise.
 */
export function usePoll(call: () => void, isLively: boolean) {
  const last = useRef({ call, isLively });
  last.current = { call, isLively };
  const woken = useRef(() => {});
  useEffect(() => {
    let wait = OFTEN;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const isVisible = () => document.visibilityState === "visible";
    const schedule = () => {
      clearTimeout(timer);
      if (isVisible()) timer = setTimeout(run, wait);
    };
    const run = () => {
      last.current.call();
      wait = nextWait(wait, last.current.isLively);
      schedule();
    };
    const touched = () => {
      if (wait === OFTEN) return;
      wait = OFTEN;
      schedule();
    };
    const seen = () => {
      wait = OFTEN;
      if (isVisible()) run();
      else clearTimeout(timer);
    };
    woken.current = touched;
    schedule();
    document.addEventListener("visibilitychange", seen);
    window.addEventListener("online", seen);
    window.addEventListener("pointerdown", touched);
    window.addEventListener("keydown", touched);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      window.removeEventListener("online", seen);
      window.removeEventListener("pointerdown", touched);
      window.removeEventListener("keydown", touched);
    };
  }, []);
  useEffect(() => {
    if (isLively) woken.current();
  }, [isLively]);
}

export interface OpenThread {
  thread: Thread | null;
  state: ThreadState;
  dispatch: (action: Action) => void;
  link: Link;
  /** Why the thread cannot be shown. */
  error: string | null;
  isLoading: boolean;
  setThread: (thread: Thread) => void;
  /** Reads the thread again, without its messages. */
  readAgain: () => void;
}

/** Reads a thread's log, then follows its events. */
export function useThread(name: string): OpenThread {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  const [thread, setThread] = useState<Thread | null>(null);
  const [link, setLink] = useState<Link>("connecting");
  const [error, setError] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(true);

  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let waiting: StreamEvent[] = [];
    let frame: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      frame = undefined;
      const events = waiting;
      waiting = [];
      if (!signal.aborted && events.length > 0) dispatch({ type: "events", events });
    };
    const watcher = {
      // Pieces that arrive together are drawn together. A hidden page has no animation frames, so this is a timer.
      events(events: StreamEvent[]) {
        waiting.push(...events);
        frame ??= setTimeout(flush, 30);
      },
      link: (link: Link) => !signal.aborted && setLink(link),
      failed: (error: api.ApiError) => setError(error.message),
    };
    const run = async () => {
      const detail = await patient(() => api.readThread(name), signal, setLink);
      if (!detail) return;
      setThread(detail);
      dispatch({ type: "queued", queued: detail.queued ?? [] });
      const last = await readLog(name, detail, dispatch, signal, setLink);
      setLoading(false);
      await follow(name, last, watcher, signal);
    };
    run().catch((error) => !signal.aborted && setError(errorMessage(error)));
    return () => {
      stop.abort();
      clearTimeout(frame);
    };
  }, [name]);

  const changes = useRef(0);
  const change = useCallback((thread: Thread) => {
    changes.current += 1;
    setThread(thread);
  }, []);
  const readAgain = useCallback(() => {
    const before = (changes.current += 1);
    api.readThread(name).then((detail) => {
      // A title that the person gives meanwhile is newer than this answer, and so is a later answer.
      if (changes.current !== before) return;
      setThread(detail);
      dispatch({ type: "queued", queued: detail.queued ?? [] });
    }, () => {});
  }, [name]);
  return { thread, state, dispatch, link, error, isLoading, setThread: change, readAgain };
}

type LogPage = Awaited<ReturnType<typeof api.log>>;

/** Reads the log up to its end, and returns the number of its last event. */
async function readLog(
  name: string, detail: ThreadDetail, dispatch: (action: Action) => void, signal: AbortSignal,
  setLink: (link: Link) => void,
): Promise<number> {
  let after: number | null = null;
  for (;;) {
    const from: number | null = after;
    const page: LogPage | null = await patient<LogPage>(() => api.log(name, from, signal), signal, setLink);
    if (!page) return 0;
    dispatch({ type: "events", events: page.items, isHistory: true });
    const end: number | undefined = page.items.at(-1)?.number;
    if (end === undefined || end >= page.last) {
      // What was open when the thread was read may be closed by now: only a log that did not grow can confirm it.
      if ((end ?? page.last) === detail.last) dispatch({ type: "opened", detail });
      return end ?? after ?? page.last;
    }
    after = end;
  }
}

/** Repeats a request until the server can be reached. */
async function patient<T>(
  request: () => Promise<T>, signal: AbortSignal, setLink: (link: Link) => void,
): Promise<T | null> {
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (signal.aborted) return null;
      if (!(error instanceof api.ApiError) || (error.status > 0 && error.status < 500)) throw error;
      setLink("lost");
      await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 500 * 2 ** attempt)));
    }
  }
  return null;
}
