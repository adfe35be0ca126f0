import { useEffect, useId, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded, useSettled } from "../hooks";
import { attempt, say } from "../say";
import { count, fullTime, line, plainSpaces, when } from "../text";
import { nextTheme, setTheme, theme } from "../theme";
import type { Me, Question, Status, Thread } from "../types";
import { threadHash } from "./App";
import { Confirm, Prompt } from "./Dialog";
import { Icon } from "./Icon";
import { Menu, type MenuItem } from "./Menu";

interface Props {
  me: Me;
  current: string | null;
  /** Open questions of other threads. */
  questions: Question[];
  changes: number;
  onChanged: () => void;
  /** Says whether the agent works on a thread of the list. */
  onLively: (isLively: boolean) => void;
  onSignOut: () => void;
}

export function Sidebar({ me, current, questions, changes, onChanged, onLively, onSignOut }: Props) {
  const [search, setSearch] = useState("");
  const settled = useSettled(search.trim(), 250);
  const list = useLoaded(() => api.threads(settled), settled);
  const [more, setMore] = useState<Thread[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [chosen, setChosen] = useState(theme);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();

  useEffect(() => {
    if (changes > 0) list.again();
  }, [changes]);
  useEffect(() => setMore([]), [settled]);
  useEffect(() => {
    if (more.length === 0) setNext(list.value?.next ?? null);
    onLively((list.value?.items ?? []).some(({ status }) => status === "working" || status === "queued"));
  }, [list.value]);

  const showMore = () => attempt(async () => {
    const page = await api.threads(settled, next);
    setMore([...more, ...page.items]);
    setNext(page.next ?? null);
  });
  const first = list.value?.items ?? [];
  const known = new Set(first.map((thread) => thread.id));
  const items = [...first, ...more.filter((thread) => !known.has(thread.id))];

  return (
    <div class="sidebar-inner">
      <div class="sidebar-head">
        <a class="brand" href="#/">prowess</a>
        <a class="button primary small" href="#/"><Icon name="plus" />New</a>
      </div>
      <div class="search">
        <Icon name="search" />
        <input
          ref={field} type="search" value={search} placeholder="Search threads" aria-label="Search threads" dir="auto" maxLength={100}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </div>
      {questions.length > 0 && (
        <section class="open-questions" aria-labelledby={`${id}-q`}>
          <h2 id={`${id}-q`} class="section-title">{count(questions.length, "open question")} elsewhere</h2>
          <ul>
            {questions.slice(0, 5).map((question) => (
              <li key={`${question.thread}/${question.number}`}>
                <a href={threadHash(question.thread)}><Icon name="question" /><span class="two-lines" dir="auto">{line(plainSpaces(question.title))}</span></a>
              </li>
            ))}
            {questions.length > 5 && <li class="hint">and {questions.length - 5} more</li>}
          </ul>
        </section>
      )}
      <div class="threads">
        <h2 class="section-title">Threads</h2>
        {list.error && <p class="error-text" role="alert">{list.error}</p>}
        {list.value && items.length === 0 && (
          <p class="hint">{settled ? "No thread matches." : "There are no threads yet."}</p>
        )}
        <ul>
          {items.map((thread) => (
            <ThreadRow key={thread.id} thread={thread} isCurrent={thread.id === current} onChanged={onChanged} />
          ))}
        </ul>
        {next && <button type="button" class="quiet" onClick={showMore}>Show more</button>}
      </div>
      <footer class="sidebar-foot">
        <span class="who" dir="auto" title={`prowess ${me.version}`}>{line(me.user.name)}</span>
        <button
          type="button" class="icon-button" aria-label={`Colours: ${chosen}`} title={`Colours: ${chosen}`}
          onClick={() => {
            const theme = nextTheme(chosen);
            setTheme(theme);
            setChosen(theme);
            say(`Colours: ${theme}`);
          }}
        >
          <Icon name={chosen === "light" ? "sun" : chosen === "dark" ? "moon" : "auto"} />
        </button>
        <a class="icon-button" href="#/settings" aria-label="Settings" title="Settings"><Icon name="settings" /></a>
        <Menu label="Account" items={[{ text: "Sign out", onClick: onSignOut }]} />
      </footer>
    </div>
  );
}

const STATUS: Record<Status, string> = {
  idle: "", queued: "queued", working: "working", waiting: "waits for you", dead: "needs an admin",
};

export function StatusMark({ status }: { status: Status }) {
  if (status === "idle") return null;
  return <span class={`status ${status}`}>{STATUS[status] ?? line(status)}</span>;
}

function ThreadRow({ thread, isCurrent, onChanged }: { thread: Thread; isCurrent: boolean; onChanged: () => void }) {
  const title = line(thread.title) || "Untitled";
  return (
    <li class={isCurrent ? "thread current" : "thread"}>
      <a href={threadHash(thread.id)} aria-current={isCurrent ? "page" : undefined}>
        <span class="thread-title" dir="auto">{title}</span>
        <span class="thread-meta">
          <StatusMark status={thread.status} />
          <time dateTime={thread.changed} title={fullTime(thread.changed)}>{when(thread.changed)}</time>
        </span>
      </a>
      <ThreadMenu thread={thread} isCurrent={isCurrent} onChanged={onChanged} />
    </li>
  );
}

/** What can be done with a thread as a whole. */
export function ThreadMenu({ thread, isCurrent, onChanged, onRenamed }: {
  thread: Thread; isCurrent: boolean; onChanged: () => void; onRenamed?: (thread: Thread) => void;
}) {
  const [asks, setAsks] = useState<"rename" | "delete" | null>(null);
  const title = line(thread.title) || "Untitled";
  const fork = () => attempt(async () => {
    const copy = await api.forkThread(thread.id);
    onChanged();
    location.hash = threadHash(copy.id);
  }, "Forked: this is the copy.");
  const items: MenuItem[] = [
    { text: "Rename", icon: "pencil", onClick: () => setAsks("rename") },
    { text: "Fork", icon: "fork", onClick: fork },
    { text: "Export as Markdown", icon: "download", href: api.exportUrl(thread.id, "markdown") },
    { text: "Export as JSON", icon: "download", href: api.exportUrl(thread.id, "json") },
    { text: "Delete", icon: "trash", isDangerous: true, onClick: () => setAsks("delete") },
  ];
  return (
    <>
      <Menu label={`Actions for ${title}`} items={items} />
      {asks === "rename" && (
        <Prompt
          title="Rename the thread" label="Title" value={thread.title} verb="Rename" onClose={() => setAsks(null)}
          onDone={(text) => attempt(async () => {
            onRenamed?.(await api.renameThread(thread.id, text));
            onChanged();
          })}
        />
      )}
      {asks === "delete" && (
        <Confirm
          title="Delete the thread?" text={`“${title}” and its files are deleted for good.`} verb="Delete"
          onClose={() => setAsks(null)}
          onConfirm={() => attempt(async () => {
            await api.deleteThread(thread.id);
            if (isCurrent) location.hash = "#/";
            onChanged();
          }, "Deleted.")}
        />
      )}
    </>
  );
}
