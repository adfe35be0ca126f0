import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage, useHash, useMedia, useOnline, usePoll } from "../hooks";
import { onAnnounce, onSay, say, type Said } from "../say";
import type { Me, Question } from "../types";
import { Conversation } from "./Conversation";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import { Settings } from "./Settings";
import { SignIn } from "./SignIn";
import { Sidebar } from "./Sidebar";
import { Welcome } from "./Welcome";

export const threadHash = (name: string) => `#/thread/${encodeURIComponent(name)}`;

/** The page loads again at the end of a session, so that nothing of it stays. The reason outlives that. */
const REASON = "prowess-signed-out";
function keepReason(reason: string) {
  try {
    sessionStorage.setItem(REASON, reason);
  } catch {
    // The browser keeps nothing for this page.
  }
}
function takeReason(): string | null {
  try {
    const reason = sessionStorage.getItem(REASON);
    sessionStorage.removeItem(REASON);
    return reason;
  } catch {
    return null;
  }
}

/** What the address shows: a thread, the settings, or the start. */
function route(hash: string): { view: "start" } | { view: "thread"; name: string } | { view: "settings"; page: string } {
  const [, view, name] = hash.replace(/^#/, "").split("/");
  try {
    if (view === "thread" && name) return { view, name: decodeURIComponent(name) };
  } catch {
    return { view: "start" };
  }
  return view === "settings" ? { view, page: name || "tokens" } : { view: "start" };
}

export function App() {
  const [me, setMe] = useState<Me | null>(null);
  const [state, setState] = useState<"starting" | "signed-out" | "ready">("starting");
  const [problem, setProblem] = useState<string | null>(null);
  /** Why the person has to sign in again. */
  const [reason, setReason] = useState(takeReason);
  const wasSignedIn = useRef(false);

  const start = useCallback(async () => {
    try {
      setMe(await api.me());
      wasSignedIn.current = true;
      setReason(null);
      setState("ready");
      setProblem(null);
    } catch (error) {
      if (error instanceof api.ApiError && error.status === 401) setState("signed-out");
      else setProblem(errorMessage(error));
    }
  }, []);
  useEffect(() => {
    api.whenSignedOut(() => {
      setMe(null);
      if (wasSignedIn.current) setReason("You were signed out: your session ended, or it was revoked.");
      wasSignedIn.current = false;
      setState("signed-out");
    });
    void start();
  }, []);
  useEffect(() => {
    if (!problem) return;
    const timer = setTimeout(start, 3000);
    return () => clearTimeout(timer);
  }, [problem]);

  return (
    <>
      {state === "starting" && (
        <main class="centre">
          <p role="status">{problem ? `${problem} Trying again…` : "Loading…"}</p>
        </main>
      )}
      {state === "signed-out" && <SignIn reason={reason} onSignedIn={start} />}
      {state === "ready" && me && <Page me={me} />}
      <Toasts />
      <Announcer />
    </>
  );
}

function Page({ me }: { me: Me }) {
  const at = route(useHash());
  const isNarrow = useMedia("(max-width: 760px)");
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const [questions, setQuestions] = useState<Question[]>([]);
  /** Grows when the list of threads should be read again. */
  const [changes, setChanges] = useState(0);
  const isOnline = useOnline();

  const readQuestions = useCallback(() => {
    api.questions().then(({ items }) => setQuestions(items), () => {});
  }, []);
  const [isLively, setLively] = useState(false);
  // A hidden page asks when it becomes visible.
  const changed = useCallback(() => {
    if (document.visibilityState !== "visible") return;
    setChanges((n) => n + 1);
    readQuestions();
  }, []);
  useEffect(readQuestions, []);
  usePoll(changed, isLively);
  useEffect(() => setDrawerOpen(false), [location.hash, isNarrow]);
  // If the element that had the focus is gone, the new view gets it.
  useEffect(() => {
    const timer = setTimeout(() => document.activeElement === document.body && document.getElementById("main")?.focus());
    return () => clearTimeout(timer);
  }, [location.hash]);

  const signOut = async () => {
    try {
      await api.logout();
      keepReason("You signed out.");
      location.hash = "";
      location.reload();
    } catch (error) {
      say(errorMessage(error), true);
    }
  };
  const current = at.view === "thread" ? at.name : null;
  const sidebar = (
    <Sidebar
      me={me} current={current} questions={questions.filter(({ thread }) => thread !== current)} changes={changes}
      onChanged={changed} onLively={setLively} onSignOut={signOut}
    />
  );
  const openMenu = isNarrow
    ? (
      <button type="button" class="icon-button" aria-label="Threads" title="Threads" onClick={() => setDrawerOpen(true)}>
        <Icon name="menu" />
        {questions.length > 0 && <span class="dot" aria-hidden="true" />}
      </button>
    )
    : null;

  return (
    <div class="page">
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the conversation</a>
      {!isOnline && <div class="banner" role="status">You are offline. The page continues when the network is back.</div>}
      <div class="columns">
        {!isNarrow && <nav class="sidebar" aria-label="Threads">{sidebar}</nav>}
        {isNarrow && isDrawerOpen && (
          <Dialog title="Threads" kind="left" onClose={() => setDrawerOpen(false)}>{sidebar}</Dialog>
        )}
        {at.view === "thread" && (
          <Conversation key={at.name} name={at.name} me={me} menu={openMenu} onChanged={changed} />
        )}
        {at.view === "settings" && <Settings me={me} page={at.page} menu={openMenu} />}
        {at.view === "start" && <Welcome me={me} menu={openMenu} onChanged={changed} />}
      </div>
    </div>
  );
}

/** How long a message is shown. */
const SHOWN = 7000;

function Toasts() {
  const [toasts, set] = useState<(Said & { key: number })[]>([]);
  const next = useRef(0);
  useEffect(() => onSay((said) => {
    const key = (next.current += 1);
    set((old) => [...old, { ...said, key }].slice(-3));
    setTimeout(() => set((old) => old.filter((toast) => toast.key !== key)), SHOWN);
  }), []);
  return (
    <div class="toasts">
      <div role="status">
        {toasts.filter(({ isError }) => !isError).map(({ key, text }) => <p key={key} class="toast" dir="auto">{text}</p>)}
      </div>
      <div role="alert">
        {toasts.filter(({ isError }) => isError).map(({ key, text }) => (
          <p key={key} class="toast error" dir="auto">{text}</p>
        ))}
      </div>
    </div>
  );
}

/** Text that only screen readers get. */
function Announcer() {
  const [text, set] = useState("");
  useEffect(() => onAnnounce((said) => {
    // The same text twice is read twice only if it changed in between.
    set("");
    setTimeout(() => set(said), 50);
  }), []);
  return <div class="unseen" aria-live="polite" aria-atomic="true" data-testid="announcer">{text}</div>;
}
