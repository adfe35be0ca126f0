import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage, useMedia, usePoll, useThread } from "../hooks";
import type { Links } from "../markdown";
import { announce, attempt, say } from "../say";
import { count, line, plainSpaces, prose, start } from "../text";
import { isLoggedMessage, waitingMessages } from "../thread";
import type { Artifact, Me } from "../types";
import { threadHash } from "./App";
import { Composer } from "./Composer";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import { LiveResponse, ItemView } from "./Items";
import { Panel, type Tab } from "./Panel";
import { QuestionCard } from "./QuestionCard";
import { StatusMark, ThreadMenu } from "./Sidebar";
import { Running } from "./ToolCard";
import { upload } from "./upload";
import { useDrop } from "./useDrop";
import { firstMessages } from "./Welcome";
import { ArtifactPreview, FilePreview } from "./Preview";

/** How many items of a long thread are shown at first, and with each click. */
const SHOWN = 120;
/** How near to the end the view follows what comes, in pixels. */
const NEAR = 120;

interface Props {
  name: string;
  me: Me;
  menu: ComponentChildren;
  onChanged: () => void;
}

export function Conversation({ name, me, menu, onChanged }: Props) {
  const { thread, state, dispatch, link, error, isLoading, setThread, readAgain } = useThread(name);
  const isWide = useMedia("(min-width: 1180px)");
  const [isPanelOpen, setPanelOpen] = useState(isWide);
  const [tab, setTab] = useState<Tab>("skills");
  const [shown, setShown] = useState(SHOWN);
  const [preview, setPreview] = useState<string | null>(null);
  const [artifact, setArtifact] = useState<Pick<Artifact, "name" | "version"> | null>(null);
  const mayWrite = me.scopes.includes("write");
  const mayApprove = me.scopes.includes("approve");

  useEffect(() => setPanelOpen(isWide), [isWide]);
  useEffect(() => {
    document.title = thread ? `${line(thread.title) || "Untitled"} · prowess` : "prowess";
  }, [thread?.title]);
  // The list of threads and a title that the server gave. What was read when the thread was opened is new enough.
  const turnsRead = useRef<number | null>(null);
  useEffect(() => {
    if (isLoading) return;
    onChanged();
    const isNew = turnsRead.current !== null && turnsRead.current !== state.turnsEnded;
    turnsRead.current = state.turnsEnded;
    if (isNew || thread?.title === "") readAgain();
  }, [state.turnsEnded, state.status, isLoading]);
  // No event tells that somebody else sent a message that has to wait.
  usePoll(() => state.status !== "idle" && readAgain(), state.status === "working" || state.status === "queued");
  const [isBegun] = useState(() => firstMessages.has(name));
  useAnnouncements(state, isLoading, isBegun);

  const send = async (text: string, mode: api.Mode, id: string) => {
    dispatch({ type: "sending", key: id, text });
    try {
      const { message } = await api.startTurn(name, text, mode, id);
      dispatch({ type: "sent", key: id, id: message });
      return true;
    } catch (error) {
      dispatch({ type: "forget_unsent", key: id });
      say(errorMessage(error), true);
      return false;
    }
  };
  useEffect(() => {
    const first = firstMessages.get(name);
    firstMessages.delete(name);
    if (!first) return;
    dispatch({ type: "sending", key: first.id, text: first.text });
    dispatch({ type: "sent", key: first.id, id: first.id });
  }, [name]);

  const stop = () => attempt(() => api.cancelTurn(name));
  const addFiles = (files: File[]) => upload(name, "/project", files).then((done) => {
    if (done) setTab("files");
  });
  const fork = (through: number) => attempt(async () => {
    const copy = await api.forkThread(name, through);
    onChanged();
    location.hash = threadHash(copy.id);
  }, "Forked: this is the copy.");

  const { isDropping, drop } = useDrop(mayWrite ? addFiles : null);
  const isWorking = state.status !== "idle";
  const waiting = waitingMessages(state);
  const hidden = Math.max(0, state.items.length - shown);
  const items = state.items.slice(hidden);
  const shownCalls = new Set(items.flatMap((item) => item.kind === "assistant" ? (item.message.calls ?? []).map(({ id }) => id) : []));
  const card = (question: typeof state.questions[number]) => (
    <QuestionCard
      key={question.number} question={question} hasOthers={state.questions.length > 1} dispatch={dispatch} mayApprove={mayApprove}
    />
  );
  const { scroller, isAtEnd, toEnd } = useFollow(state, isLoading);
  const links: Links = { openFile: setPreview, openArtifact: (name, version) => setArtifact({ name, version }) };

  if (error) {
    return (
      <main id="main" class="main" tabIndex={-1}>
        <header class="topbar">{menu}<h1 class="topbar-title">Thread</h1></header>
        <div class="centre"><div><p role="alert">{error}</p><p><a href="#/">Start a new thread</a></p></div></div>
      </main>
    );
  }
  const panel = (
    <Panel
      name={name} tab={tab} onTab={setTab} state={state} mayWrite={mayWrite} mayApprove={mayApprove} onPreview={setPreview}
    />
  );
  return (
    <>
      <main
        id="main" class={isDropping ? "main dropping" : "main"} tabIndex={-1} {...drop}
      >
        <header class="topbar">
          {menu}
          <h1 class="topbar-title" dir="auto">{thread ? line(thread.title) || "Untitled" : "…"}</h1>
          <StatusMark status={state.status} />
          <span class="spring" />
          {thread && <span class="hint agent-name" dir="auto">{line(thread.agent)}</span>}
          {thread && <ThreadMenu thread={thread} isCurrent onChanged={onChanged} onRenamed={setThread} />}
          <button
            type="button" class="icon-button" aria-label="Panel" title="Skills, context, files, artifacts, usage"
            aria-expanded={isPanelOpen} onClick={() => setPanelOpen(!isPanelOpen)}
          >
            <Icon name="panel" />
          </button>
        </header>
        {link === "lost" && <div class="banner" role="status">The connection is lost. Connecting again…</div>}
        <div class="scroller" ref={scroller} tabIndex={0} role="region" aria-label="Conversation">
          <div class="conversation">
            {isLoading && <p class="hint" role="status">Loading…</p>}
            {!isLoading && state.items.length === 0 && waiting.length === 0 && (
              <p class="hint empty">This thread has no messages yet.</p>
            )}
            {hidden > 0 && (
              <button type="button" class="quiet" onClick={() => setShown(shown + SHOWN)}>
                Show earlier messages ({hidden.toLocaleString("en")})
              </button>
            )}
            {items.map((item) => (
              <ItemView
                key={item.key} item={item} calls={state.calls} questions={state.questions} card={card} links={links}
                {...(mayWrite && { onFork: fork })}
              />
            ))}
            {state.questions.filter(({ call }) => !shownCalls.has(call)).map(card)}
            <LiveResponse live={state.live} links={links} />
            {state.status === "working" && (
              <p class="working"><span class="pulse" aria-hidden="true" />Working <Running since={state.turnStarted} /></p>
            )}
            {state.status === "queued" && <p class="working">The turn is queued. It starts when the server has room.</p>}
            {state.status === "dead" && (
              <p class="question-note" role="status">
                The server tried several times and cannot continue. The turn waits for an administrator. <em>Stop</em> ends it, and the agent goes on with what waits.
              </p>
            )}
            {waiting.map((sent) => (
              <div key={sent.key} class="message user unlogged">
                <div class="bubble" dir="auto">{prose(sent.text)}</div>
                <span class="hint">{sent.id === null ? "Sending…" : isWorking ? "Sent. The agent reads it as soon as it can." : "Sent."}</span>
              </div>
            ))}
          </div>
        </div>
        <div class="bottom">
          {!isAtEnd && (
            <button type="button" class="to-end" onClick={toEnd}><Icon name="down" />Latest</button>
          )}
          {state.notices.length > 0 && (
            <ul class="notices">
              {state.notices.map(({ key, text }) => (
                <li key={key}>
                  <span dir="auto">{line(text)}</span>
                  <button type="button" class="icon-button small" aria-label="Dismiss the notice" onClick={() => dispatch({ type: "dismiss", key })}>
                    <Icon name="close" />
                  </button>
                </li>
              ))}
            </ul>
          )}
          {state.questions.length > 0 && (
            <button type="button" class="to-question" onClick={goToQuestion}>
              <Icon name="question" /><span class="cut" dir="auto">{count(state.questions.length, "open question")}: {start(line(plainSpaces(state.questions[0]?.title ?? "")), 200)}</span>
            </button>
          )}
          <Todos todos={state.todos} />
          {mayWrite
            ? (
              <Composer
                draftKey={name} isWorking={isWorking} isDisabled={isLoading} isAsked={state.questions.length > 0} hasFocus
                onSend={send} onStop={stop} onFiles={addFiles}
                hasMessage={(id) => isLoggedMessage(state, id) || state.queued.some((queued) => queued.id === id)}
              />
            )
            : <p class="hint">Your token may only read.</p>}
        </div>
      </main>
      {isPanelOpen && (isWide
        ? <aside class="panel" aria-label="Panel">{panel}</aside>
        : <Dialog title="Panel" kind="right" onClose={() => setPanelOpen(false)}>{panel}</Dialog>)}
      {preview && <FilePreview name={name} path={preview} onClose={() => setPreview(null)} />}
      {artifact && <ArtifactPreview name={name} artifact={artifact} onClose={() => setArtifact(null)} />}
    </>
  );
}

function goToQuestion() {
  const card = document.querySelector<HTMLElement>("[data-question]");
  card?.scrollIntoView({ block: "center" });
  card?.focus({ preventScroll: true });
}

function Todos({ todos }: { todos: { content: string; status: string }[] }) {
  if (todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed" || status === "done").length;
  const current = todos.find(({ status }) => status === "in_progress");
  return (
    <details class="todos">
      <summary>Plan: {done} of {todos.length} done{current ? <span class="muted" dir="auto"> · {start(line(current.content), 80)}</span> : ""}</summary>
      <ol>
        {todos.map(({ content, status }, index) => (
          <li key={index} class={line(status).replaceAll(/[^a-z_]/g, "")} dir="auto">
            <span class="unseen">{line(status).replaceAll("_", " ")}: </span>{line(content)}
          </li>
        ))}
      </ol>
    </details>
  );
}

/** Keeps the end in view while the person is there. */
function useFollow(state: unknown, isLoading: boolean) {
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAtEnd, setAtEnd] = useState(true);
  const toEnd = () => {
    follows.current = true;
    setAtEnd(true);
    if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  };
  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const scrolled = () => {
      const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      follows.current = isNear;
      setAtEnd(isNear);
    };
    box.addEventListener("scroll", scrolled, { passive: true });
    // A card that opens, an image, or a keyboard on a phone changes the height.
    const observer = new ResizeObserver(() => {
      if (follows.current) box.scrollTop = box.scrollHeight;
    });
    observer.observe(box);
    if (box.firstElementChild) observer.observe(box.firstElementChild);
    return () => {
      box.removeEventListener("scroll", scrolled);
      observer.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (follows.current && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [state, isLoading]);
  return { scroller, isAtEnd, toEnd };
}

/**
 * Tells screen readers what happened: whole responses and questions, not every piece. `isBegun`: the person has just begun the
 * thread, so that all of it is new.
 */
function useAnnouncements(state: ReturnType<typeof useThread>["state"], isLoading: boolean, isBegun: boolean) {
  const known = useRef<{ last: number; question: number; notice: number; status: string } | null>(
    isBegun ? { last: -1, question: -1, notice: 0, status: "idle" } : null,
  );
  useEffect(() => {
    if (isLoading) return;
    const question = state.questions.at(-1);
    const item = state.items.at(-1);
    const now = {
      last: item?.number ?? -1, question: question?.number ?? -1, notice: state.notices.at(-1)?.key ?? 0,
      status: state.status,
    };
    const before = known.current;
    known.current = now;
    if (!before) return;
    if (question && now.question > before.question) announce(`Question: ${line(plainSpaces(question.title))}`);
    else if (now.notice > before.notice) announce(line(state.notices.at(-1)?.text ?? ""));
    else if (item?.kind === "assistant" && now.last > before.last && item.message.text) {
      announce(`The agent says: ${start(prose(item.message.text), 600)}`);
    } else if (item?.kind === "outcome" && now.last > before.last) announce(line(item.reason) || "The turn ended.");
    else if (now.status === "working" && before.status === "idle") announce("The agent is working.");
  }, [state, isLoading]);
}
