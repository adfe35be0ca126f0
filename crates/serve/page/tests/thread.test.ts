import { expect, test } from "vitest";
import { addedTitle, EMPTY, MAX_PROGRESS, outcomeText, reduce, waitingMessages, type Action, type ThreadState } from "../src/thread";
import type { LoggedEvent, Message, Question, StreamEvent, ThreadDetail } from "../src/types";

const at = (number: number) => new Date(Date.UTC(2026, 0, 1, 12, 0, number)).toISOString();
const user = (id: string, text: string): Message => ({ id, role: "user", text });
const says = (id: string, text: string, calls: Message["calls"] = []): Message => ({ id, role: "assistant", text, calls });
const call = { id: "c1", name: "execute", arguments: { command: "make" } };
const question = (number: number, id = "c1"): Question & { type: "asked" } => ({
  type: "asked", thread: "t", number, call: id, tool: "execute", title: `Run ${number}`, details: [], arguments: null, via: null,
  can_always: true, can_edit: false, always: [], always_ends: null, note: null, at: at(number),
});

type Bare = LoggedEvent extends infer E ? (E extends LoggedEvent ? Omit<E, "number" | "at"> : never) : never;
const log = (...events: Bare[]) => events.map((event, index) => ({ ...event, number: index + 1, at: at(index + 1) }) as LoggedEvent);
const after = (state: ThreadState, ...actions: Action[]) => actions.reduce(reduce, state);
const events = (...list: StreamEvent[]): Action => ({ type: "events", events: list });

const asked = log(
  { type: "turn_started", messages: [user("u1", "Build it.")] },
  { type: "model_called", model: "m" },
  { type: "responded", model: "m", message: says("a1", "", [call]), usage: { input: 1, output: 2 } },
  { ...question(4) } as never,
);

test("a turn with a tool call", () => {
  const state = after(EMPTY, events(...log(
    { type: "turn_started", messages: [user("u1", "Build it.")] },
    { type: "responded", model: "m", message: says("a1", "I will.", [call]) },
    { type: "tool_started", call: "c1" },
    { type: "tool_answered", call: "c1", text: "ok", loaded: [{ name: "s", tokens: 5 }] },
    { type: "responded", model: "m", message: says("a2", "Done.") },
    { type: "turn_ended", outcome: "answered" },
  )));
  expect(state.items.map(({ kind, key }) => [kind, key])).toEqual([["user", "1.0"], ["assistant", "2"], ["assistant", "5"]]);
  expect(state.calls.get("c1")).toMatchObject({ state: "done", text: "ok", milliseconds: 1000, loaded: ["s"] });
  expect(state.items.at(-1)).toMatchObject({ turnEnd: 6 });
  expect(state).toMatchObject({ status: "idle", last: 6, skills: [{ name: "s", tokens: 5 }], turnsEnded: 1 });
});

test("events that are known are left out, one by one or together", () => {
  const whole = after(EMPTY, events(...asked));
  const twice = after(EMPTY, events(...asked.slice(0, 3)), events(...asked.slice(1)), events(...asked));
  expect(twice).toEqual(whole);
  expect(asked.reduce((state, event) => reduce(state, events(event)), EMPTY)).toEqual(whole);
});

test("a step does not change the state before it", () => {
  const before = after(EMPTY, events(...asked));
  const copy = structuredClone(before);
  after(before, events({ type: "live", text: "x", progress: { c1: "y" } }, ...log({ type: "turn_ended", outcome: "answered" })
    .map((event) => ({ ...event, number: 5 }))), { type: "replying", number: 4 }, { type: "sending", key: "k", text: "t" });
  expect(before).toEqual(copy);
});

test("pieces are collected, and the response replaces them", () => {
  let state = after(EMPTY, events({ type: "live", text: "He", reasoning: "r", status: "working" }, { type: "text", text: "llo" }));
  expect(state.live).toEqual({ text: "Hello", reasoning: "r" });
  state = after(state, events({ type: "live", text: "Hel", reasoning: "" }));
  expect(state.live.text).toBe("Hel");
  state = after(state, events(...log({ type: "responded", model: "m", message: says("a", "Hello!") })));
  expect(state.live.text).toBe("");
  expect(state.items).toHaveLength(1);
});

test("live output is bounded, and a stream that begins replaces it", () => {
  const state = after(EMPTY, events(...asked), events({ type: "progress", call: "c1", text: "x".repeat(MAX_PROGRESS) }, { type: "progress", call: "c1", text: "end" }));
  expect(state.calls.get("c1")?.progress).toHaveLength(MAX_PROGRESS);
  expect(state.calls.get("c1")?.progress.endsWith("xend")).toBe(true);
  expect(after(state, events({ type: "live" })).calls.get("c1")?.progress).toBe("");
  expect(after(state, events({ type: "progress", call: "unknown", text: "x" })).calls.size).toBe(1);
});

const replied: LoggedEvent = { number: 5, at: at(5), type: "replied", call: "c1", reply: "approve" };

test("a call shows the arguments that a person changed", () => {
  const edited: LoggedEvent = { number: 5, at: at(5), type: "replied", call: "c1", reply: "edit", arguments: { command: "make test" } };
  const state = after(EMPTY, events(...asked, edited));
  expect(state.calls.get("c1")).toMatchObject({ arguments: { command: "make test" }, reply: { kind: "edit" } });
});

test("a question that this page answers closes without a notice", () => {
  let state = after(EMPTY, events(...asked));
  expect(state).toMatchObject({ status: "waiting", questions: [{ number: 4, isReplying: false }] });
  expect(state.calls.get("c1")?.state).toBe("asked");
  state = after(state, { type: "replying", number: 4 }, events(replied));
  expect(state).toMatchObject({ status: "working", questions: [], notices: [] });
  expect(state.calls.get("c1")).toMatchObject({ state: "pending", reply: { kind: "approve", message: null } });
});

test("a question that was answered elsewhere closes with a notice", () => {
  const open = after(EMPTY, events(...asked));
  expect(after(open, events(replied)).notices.map(({ text }) => text)).toEqual(["“Run 4” was answered elsewhere: yes, once."]);
  expect(after(open, { type: "replied_elsewhere", number: 4 })).toMatchObject({ questions: [], notices: [{ key: 1 }] });
  expect(after(open, { type: "replied_elsewhere", number: 9 }).notices).toEqual([]);
  expect(after(EMPTY, { type: "events", events: [...asked, replied], isHistory: true }).notices).toEqual([]);
});

test("a notice that is said again is shown once, as a new one", () => {
  const state = after(EMPTY, events({ type: "notice", text: "again" }, { type: "notice", text: "else" }, { type: "notice", text: "again" }));
  expect(state.notices).toEqual([{ key: 2, text: "else" }, { key: 3, text: "again" }]);
});

test("a refused call is refused, and not failed", () => {
  const state = after(EMPTY, events(...asked, { ...replied, reply: "reject", message: "no" } as LoggedEvent,
    { number: 6, at: at(6), type: "tool_answered", call: "c1", text: "refused", is_error: true }));
  expect(state.calls.get("c1")).toMatchObject({ state: "refused", reply: { kind: "reject", message: "no" } });
});

test("one reply closes one question", () => {
  const state = after(EMPTY, events(...asked, question(5)), events({ ...replied, number: 6 }));
  expect(state.questions.map(({ number }) => number)).toEqual([5]);
  expect(state.status).toBe("waiting");
});

test("the end of a turn closes what is open", () => {
  const state = after(EMPTY, events(...asked), events({ type: "text", text: "half" }),
    events({ number: 5, at: at(5), type: "turn_ended", outcome: "cancelled", reason: "the turn was cancelled" }));
  expect(state).toMatchObject({ status: "idle", questions: [] });
  expect(state.calls.get("c1")?.state).toBe("cut_off");
  expect(state.items.at(-1)).toMatchObject({ kind: "outcome", outcome: "cancelled", unfinished: "half" });
});

test("what was said stays at the end of a turn, also if the stream forgets it before", () => {
  const end = { number: 5, at: at(5), type: "turn_ended", outcome: "cancelled" } as LoggedEvent;
  const state = after(EMPTY, events(...asked, { type: "text", text: "ha" }, { type: "text", text: "lf" }), events({ type: "live" }, end));
  expect(state.items.at(-1)).toMatchObject({ kind: "outcome", unfinished: "half" });
  // A response that is in the log is not said twice.
  const whole = { number: 5, at: at(5), type: "responded", model: "m", message: says("a2", "half") } as LoggedEvent;
  const later = after(EMPTY, events(...asked, { type: "text", text: "half" }, whole, { ...end, number: 6 }));
  expect(later.items.at(-1)).toMatchObject({ kind: "outcome", unfinished: "" });
});

test("a failed model call is told once", () => {
  const state = after(EMPTY, events(...log(
    { type: "turn_started", messages: [user("u", "x")] },
    { type: "model_failed", error: { message: "overloaded" } },
    { type: "turn_ended", outcome: "failed" },
  )));
  expect(state.items.slice(1)).toMatchObject([{ kind: "outcome", reason: "overloaded" }]);
});

test("a message that was sent is shown until it is in the log", () => {
  let state = after(EMPTY, { type: "sending", key: "k", text: "Build it." });
  expect(state.unlogged).toEqual([{ key: "k", id: null, text: "Build it.", error: null }]);
  expect(after(state, { type: "sent", key: "k", id: "u1" }, events(...asked)).unlogged).toEqual([]);
  expect(after(state, events(...asked), { type: "sent", key: "k", id: "u1" }).unlogged).toEqual([]);
  state = after(state, { type: "sending", key: "l", text: "And test it." }, events(...asked));
  expect(state.unlogged.map(({ key }) => key)).toEqual(["l"]);
  expect(after(state, { type: "forget_unsent", key: "l" }).unlogged).toEqual([]);
});

test("messages that wait on the server are shown until they are in the log", () => {
  const queued = [{ id: "u1", text: "Build it." }, { id: "u2", text: "Test it." }];
  const ids = (state: ThreadState) => waitingMessages(state).map(({ id }) => id);
  let state = after(EMPTY, { type: "queued", queued });
  expect(ids(state)).toEqual(["u1", "u2"]);
  // One of them is that of this page, before and after the server gave it an id.
  state = after(state, { type: "sending", key: "u2", text: "Test it." });
  expect(ids(state)).toEqual(["u1", null]);
  state = after(state, { type: "sent", key: "u2", id: "u2" });
  expect(ids(state)).toEqual(["u1", "u2"]);
  state = after(state, events(...asked));
  expect(ids(state)).toEqual(["u2"]);
  // An answer that is older than the event.
  expect(ids(after(state, { type: "queued", queued }))).toEqual(["u2"]);
});

test("what the agent adds has a title", () => {
  expect(addedTitle('<skill name="tides" origin="user" nonce="x">\n# Tides')).toBe("Loaded tides");
  expect(addedTitle("\nThe user started it again.\nReally.")).toBe("The user started it again.");
  expect(addedTitle(" ")).toBe("Added for the model");
});

test("what was read of the thread stands over the log", () => {
  const detail = { questions: [], skills: [{ name: "s", tokens: 1 }], todos: [], status: "idle" } as unknown as ThreadDetail;
  expect(after(EMPTY, events(...asked), { type: "opened", detail })).toMatchObject({ questions: [], status: "idle", skills: [{ name: "s" }] });
});

test("skills are replaced by name", () => {
  const state = after(EMPTY, events(...log(
    { type: "state_changed", loaded: [{ name: "a", tokens: 1 }, { name: "b", tokens: 2 }] },
    { type: "state_changed", loaded: [{ name: "a", tokens: 3 }], unloaded: ["b"], todos: [{ content: "x", status: "pending" }] },
  )));
  expect(state.skills).toEqual([{ name: "a", tokens: 3 }]);
  expect(state.todos).toHaveLength(1);
});

test("imported messages bring their calls and answers", () => {
  const state = after(EMPTY, events(...log({
    type: "imported",
    messages: [user("u", "x"), says("a", "", [call]), { id: "r", role: "tool", text: "done", call: "c1" }, says("b", "Yes.")],
  })));
  expect(state.items.map(({ kind }) => kind)).toEqual(["user", "assistant", "assistant"]);
  expect(state.calls.get("c1")).toMatchObject({ state: "done", text: "done" });
});

test("an unknown event only moves on", () => {
  const state = after(EMPTY, events({ number: 1, at: at(1), type: "from_the_future" } as never, { type: "odd" } as never));
  expect(state).toEqual({ ...EMPTY, last: 1 });
});

test("an outcome has a sentence, also one that is not known", () => {
  expect(outcomeText("too_many_tokens", "the turn reached its limit of 5 tokens").title).toBe("The turn reached its limit of 5 tokens.");
  expect(outcomeText("failed", "overloaded").title).toBe("The model call failed: overloaded.");
  expect(outcomeText("odd", "").title).toBe("The turn ended early.");
});
