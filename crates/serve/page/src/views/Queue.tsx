import { useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded, usePoll } from "../hooks";
import { attempt } from "../say";
import { count, duration, fullTime, line } from "../text";
import type { QueueNumbers, QueuedThread } from "../types";
import { Confirm } from "./Dialog";

/** The queue of turns, for administrators: which threads have work to do, and what becomes of dead letters. */
export function Queue() {
  const { value, error, again } = useLoaded(() => api.queue(), "queue");
  const [dropping, setDropping] = useState<QueuedThread | null>(null);
  usePoll(again, value !== null && value.items.some(({ state }) => state !== "dead"));
  return (
    <>
      <h2>Queue</h2>
      <p class="hint">
        Threads whose turns run, or wait for a worker. A dead letter is a thread that several attempts in a row could not work on. No worker
        takes it until you retry or drop it, or its user cancels the turn. The log of the worker says more about the reason.
      </p>
      {error && <p class="error-text" role="alert">{error}</p>}
      {!value && !error && <p class="hint" role="status">Loading…</p>}
      {value && <Numbers numbers={value.numbers} />}
      {value?.items.length === 0 && <p class="hint">The queue is empty.</p>}
      {value && value.items.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Threads in the queue">
          <table class="queue">
            <thead><tr><th scope="col">Thread</th><th scope="col">State</th><th scope="col">User</th><th scope="col">Queued</th><th scope="col">Attempts</th><th scope="col">Detail</th><th><span class="unseen">Actions</span></th></tr></thead>
            <tbody>
              {value.items.map((thread) => <Row key={thread.thread} thread={thread} onDrop={() => setDropping(thread)} onChanged={again} />)}
            </tbody>
          </table>
        </div>
      )}
      {value && value.left_off > 0 && <p class="hint">{count(value.left_off, "more thread")} {value.left_off === 1 ? "is" : "are"} not shown.</p>}
      {dropping && (
        <Confirm
          title={`Drop the work of ${userOf(dropping)}?`} verb="Drop" keep="Cancel" onClose={() => setDropping(null)}
          text="The turn ends, and messages that no worker has taken are lost. The thread and what was said in it stay."
          onConfirm={() => attempt(async () => {
            await api.dropThread(dropping.thread);
            again();
          }, "Dropped. A worker ends the turn.")}
        />
      )}
    </>
  );
}

function Numbers({ numbers }: { numbers: QueueNumbers }) {
  const shown = [
    ["Dead letters", numbers.dead], ["Working", numbers.working], ["Waiting", numbers.waiting], ["Queued", numbers.queued],
  ] as const;
  return (
    <dl class="queue-numbers">
      {shown.map(([name, number]) => <div key={name}><dt>{name}</dt><dd>{number.toLocaleString("en")}</dd></div>)}
      {numbers.queued > 0 && <div><dt>First one waits for</dt><dd>{duration(numbers.age_seconds * 1000)}</dd></div>}
    </dl>
  );
}

function Row({ thread, onDrop, onChanged }: { thread: QueuedThread; onDrop: () => void; onChanged: () => void }) {
  const retry = () => attempt(async () => {
    await api.retryThread(thread.thread);
    onChanged();
  }, "Workers take the thread again.");
  const which = `the thread of ${userOf(thread)} that ends with ${line(thread.thread).slice(-6)}`;
  return (
    <tr>
      <th scope="row" class="mono">{line(thread.thread)}</th>
      <td data-label="State">{thread.state === "dead" ? <span class="tag warning">dead</span> : line(thread.state)}</td>
      <td data-label="User" dir="auto">{userOf(thread)}</td>
      <td data-label="Queued">{fullTime(thread.since)}</td>
      <td data-label="Attempts">{attemptsOf(thread)}</td>
      <td data-label="Detail" dir="auto">{detailOf(thread) || "–"}</td>
      <td class="end">
        {thread.state === "dead" && (
          <div class="row-buttons">
            <button type="button" class="small" aria-label={`Retry ${which}`} onClick={retry}>Retry</button>
            <button type="button" class="small" aria-label={`Drop the work of ${which}`} onClick={onDrop}>Drop…</button>
          </div>
        )}
      </td>
    </tr>
  );
}

function userOf({ owner, owner_name: name }: QueuedThread): string {
  return line(name ?? owner ?? "") || "nobody";
}

/** How often workers tried, and how many of the last attempts failed. */
export function attemptsOf({ attempts, failures, state }: QueuedThread): string {
  // An attempt under way counts as failed until a model or a tool answers.
  const failed = state === "working" ? failures - 1 : failures;
  return failed > 0 ? `${attempts} (${failed} failed)` : String(attempts);
}

/** What helps most to know about a thread in its state. */
export function detailOf({ state, worker, not_before: until, failures, problem }: QueuedThread): string {
  const parts = [
    state === "working" ? worker : null,
    until ? `waits until ${fullTime(until)}` : null,
    // An older reason stays when an attempt succeeds.
    failures > (state === "working" ? 1 : 0) ? problem : null,
  ];
  return line(parts.filter((part) => part !== null && part !== "").join(": "));
}
