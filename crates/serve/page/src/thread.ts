// What the page knows about a thread: a pure function of the thread's events, and of what this page sent.
import { plainSpaces } from "./text";
import type {
  Json, LoadedSkill, LoggedEvent, Message, Question, QueuedMessage, ReplyKind, Status, StreamEvent, ThreadDetail, Todo, Tokens,
} from "./types";

/** How much of a call's live output is kept. */
export const MAX_PROGRESS = 20_000;
/** How many notices are shown. */
const MAX_NOTICES = 4;

/** `cut_off` is a call that started, and whose turn ended before the tool answered. */
export type CallState = "pending" | "asked" | "running" | "done" | "failed" | "refused" | "cut_off";

export interface Call {
  id: string;
  name: string;
  arguments: Json;
  state: CallState;
  progress: string;
  text: string;
  data: Json;
  started: string | null;
  milliseconds: number | null;
  loaded: string[];
  unloaded: string[];
  approvedBy: string | null;
  reply: { kind: ReplyKind; message: string | null } | null;
}

export type Item =
  | { kind: "user"; key: string; number: number; at: string; message: Message }
  | {
      kind: "assistant"; key: string; number: number; at: string; message: Message;
      model: string | null; usage: Tokens | null; finish: string | null;
      /** The number of the event that ended the turn, if this is its last response. */
      turnEnd: number | null;
    }
  | { kind: "compaction"; key: string; number: number; at: string; messages: number; summary: string }
  | {
      kind: "outcome"; key: string; number: number; at: string; outcome: string; reason: string;
      /** What the model had said when the turn ended. It is not in the log. */
      unfinished: string;
    }
  | { kind: "failure"; key: string; number: number; at: string; text: string };

/** A message that this page sent, and that is not yet in the log. `id` is the server's. */
export interface Unlogged {
  key: string;
  id: string | null;
  text: string;
  error: string | null;
}

export interface Notice {
  key: number;
  text: string;
}

export interface OpenQuestion extends Question {
  /** Whether this page sent a reply. */
  isReplying: boolean;
}

export interface ThreadState {
  /** The number of the last event. */
  last: number;
  items: Item[];
  calls: Map<string, Call>;
  questions: OpenQuestion[];
  skills: LoadedSkill[];
  todos: Todo[];
  status: Status;
  /** What the model says right now. */
  live: { text: string; reasoning: string };
  /** What the model said last in this turn, if it is not in the log. A turn that ends early leaves it. */
  partial: string;
  /** When the turn under way began. */
  turnStarted: string | null;
  unlogged: Unlogged[];
  /** Messages that wait on the server, as it said last. */
  queued: QueuedMessage[];
  notices: Notice[];
  noticesSeen: number;
  /** How many turns ended: views read their data again when it changes. */
  turnsEnded: number;
  filesChanged: number;
}

export type Action =
  | { type: "opened"; detail: ThreadDetail }
  | { type: "queued"; queued: QueuedMessage[] }
  /** `isHistory`: what happened before the page looked. */
  | { type: "events"; events: StreamEvent[]; isHistory?: boolean }
  | { type: "sending"; key: string; text: string }
  | { type: "sent"; key: string; id: string }
  | { type: "not_sent"; key: string; error: string }
  | { type: "forget_unsent"; key: string }
  | { type: "replying"; number: number }
  | { type: "reply_failed"; number: number }
  | { type: "replied_elsewhere"; number: number }
  | { type: "notice"; text: string }
  | { type: "dismiss"; key: number };

export const EMPTY: ThreadState = {
  last: -1, items: [], calls: new Map(), questions: [], skills: [], todos: [], status: "idle",
  live: { text: "", reasoning: "" }, partial: "", turnStarted: null, unlogged: [], queued: [], notices: [], noticesSeen: 0, turnsEnded: 0,
  filesChanged: 0,
};

export function reduce(state: ThreadState, action: Action): ThreadState {
  // A copy whose containers belong to this step: items and calls in it are replaced, never changed.
  const next: ThreadState = { ...state };
  switch (action.type) {
    case "opened":
      // The log has all of this. What it cannot tell is a question that was closed without an event.
      next.skills = action.detail.skills;
      next.todos = action.detail.todos;
      next.status = action.detail.status;
      next.questions = action.detail.questions.map((question) => ({
        ...question,
        isReplying: state.questions.some((known) => known.number === question.number && known.isReplying),
      }));
      return next;
    case "queued":
      // The log can be faster than the answer.
      next.queued = action.queued.filter(({ id }) => !isLoggedMessage(state, id));
      return next;
    case "events":
      next.items = [...state.items];
      next.calls = new Map(state.calls);
      for (const event of action.events) {
        if (isLogged(event)) {
          // A resumed stream may repeat what is known.
          if (event.number <= next.last) continue;
          next.last = event.number;
          applyLogged(next, event, action.isHistory ?? false);
        } else {
          applyTransient(next, event);
        }
      }
      return next;
    case "sending":
      next.unlogged = [...state.unlogged.filter(({ key }) => key !== action.key),
        { key: action.key, id: null, text: action.text, error: null }];
      return next;
    case "sent":
      // The event of the log can be faster than the answer.
      next.unlogged = isLoggedMessage(state, action.id)
        ? state.unlogged.filter(({ key }) => key !== action.key)
        : state.unlogged.map((sent) => (sent.key === action.key ? { ...sent, id: action.id } : sent));
      return next;
    case "not_sent":
      next.unlogged = state.unlogged.map((sent) => (sent.key === action.key ? { ...sent, error: action.error } : sent));
      return next;
    case "forget_unsent":
      next.unlogged = state.unlogged.filter(({ key }) => key !== action.key);
      return next;
    case "replying":
    case "reply_failed":
      next.questions = state.questions.map((question) => question.number === action.number
        ? { ...question, isReplying: action.type === "replying" }
        : question);
      return next;
    case "replied_elsewhere": {
      const question = state.questions.find(({ number }) => number === action.number);
      if (question) {
        next.questions = state.questions.filter((other) => other !== question);
        notice(next, `“${plainSpaces(question.title)}” was answered elsewhere.`);
      }
      return next;
    }
    case "notice":
      notice(next, action.text);
      return next;
    case "dismiss":
      next.notices = state.notices.filter(({ key }) => key !== action.key);
      return next;
  }
}

/** Whether a message of a person is in the log. */
export function isLoggedMessage(state: ThreadState, id: string): boolean {
  return state.items.some((item) => item.kind === "user" && item.message.id === id);
}

/** The messages that are not in the log yet: those of this page, and those that wait on the server. */
export function waitingMessages({ unlogged, queued }: ThreadState): Unlogged[] {
  const mine = new Set(unlogged.flatMap(({ key, id }) => [key, id]));
  const others = queued.filter(({ id }) => !mine.has(id)).map(({ id, text }) => ({ key: id, id, text, error: null }));
  return [...others, ...unlogged];
}

function isLogged(event: StreamEvent): event is LoggedEvent {
  return "number" in event && typeof event.number === "number";
}

function applyLogged(next: ThreadState, event: LoggedEvent, isHistory: boolean) {
  const place = { key: `${event.number}`, number: event.number, at: event.at };
  switch (event.type) {
    case "turn_started":
      next.status = "working";
      next.turnStarted = event.at;
      next.partial = "";
      addMessages(next, event.messages, place);
      break;
    case "imported":
    case "messages_added":
      addMessages(next, event.messages, place);
      break;
    case "model_called":
      next.live = { text: "", reasoning: "" };
      break;
    case "responded":
      next.live = { text: "", reasoning: "" };
      next.partial = "";
      addResponse(next, event.message, place, event.model, event.usage ?? null, event.finish ?? null);
      break;
    case "model_failed":
      next.live = { text: "", reasoning: "" };
      next.items.push({ kind: "failure", ...place, text: errorText(event.error) });
      break;
    case "tool_started":
      change(next, event.call, { state: "running", started: event.at });
      break;
    case "tool_answered": {
      const known = next.calls.get(event.call);
      const refused = known?.reply?.kind === "reject" || known?.reply?.kind === "reject_all";
      change(next, event.call, {
        state: refused ? "refused" : event.is_error ? "failed" : "done",
        text: event.text, data: event.data ?? null, progress: "",
        milliseconds: event.milliseconds ?? since(known?.started, event.at),
        loaded: (event.loaded ?? []).map(({ name }) => name), unloaded: event.unloaded ?? [],
      });
      next.questions = next.questions.filter(({ call }) => call !== event.call);
      changeState(next, event.loaded, event.unloaded, event.todos);
      next.filesChanged += 1;
      break;
    }
    case "approved":
      change(next, event.call, { approvedBy: event.by });
      break;
    case "asked": {
      const { type: _, ...question } = event;
      next.questions = [...next.questions.filter(({ number }) => number !== event.number),
        { ...question, isReplying: false }];
      next.status = "waiting";
      change(next, event.call, { state: "asked" });
      break;
    }
    case "replied": {
      const question = next.questions.find(({ number }) => number === event.question)
        ?? next.questions.find(({ call }) => call === event.call);
      next.questions = next.questions.filter((other) => other !== question);
      if (question && !question.isReplying && !isHistory) {
        notice(next, `“${plainSpaces(question.title)}” was answered elsewhere: ${replyText(event.reply)}.`);
      }
      const isNo = event.reply === "reject" || event.reply === "reject_all";
      change(next, event.call, {
        state: isNo ? "refused" : "pending", reply: { kind: event.reply, message: event.message ?? null },
        ...(event.arguments !== undefined && { arguments: event.arguments }),
      });
      if (next.questions.length === 0) next.status = "working";
      break;
    }
    case "state_changed":
      changeState(next, event.loaded, event.unloaded, event.todos);
      break;
    case "compacted":
      next.items.push({ kind: "compaction", ...place, messages: event.messages, summary: event.summary });
      break;
    case "stopped":
      break;
    case "turn_ended":
      endTurn(next, event, place);
      break;
    default:
    // A later version of the server may have more events.
  }
}

function applyTransient(next: ThreadState, event: Exclude<StreamEvent, LoggedEvent>) {
  switch (event.type) {
    case "text":
      next.live = { ...next.live, text: next.live.text + event.text };
      next.partial = next.live.text;
      break;
    case "reasoning":
      next.live = { ...next.live, reasoning: next.live.reasoning + event.text };
      break;
    case "progress": {
      const known = next.calls.get(event.call);
      if (known) change(next, event.call, { progress: tail(known.progress + event.text) });
      break;
    }
    case "notice":
      notice(next, event.text);
      break;
    case "status":
      next.status = event.status;
      break;
    case "live":
      next.live = { text: event.text ?? "", reasoning: event.reasoning ?? "" };
      next.partial = next.live.text || next.partial;
      if (event.status) next.status = event.status;
      for (const call of next.calls.values()) {
        const progress = tail(event.progress?.[call.id] ?? "");
        if (progress !== call.progress) change(next, call.id, { progress });
      }
      break;
    case "resume":
      break;
    default:
  }
}

type Place = { key: string; number: number; at: string };

function addMessages(next: ThreadState, messages: Message[], place: Place) {
  messages.forEach((message, index) => {
    const here = { ...place, key: `${place.key}.${index}` };
    if (message.role === "user") {
      next.items.push({ kind: "user", ...here, message });
      const mine = next.unlogged.find(({ id, key }) => id === message.id || key === message.id)
        ?? next.unlogged.find(({ text, error }) => error === null && text === message.text);
      if (mine) next.unlogged = next.unlogged.filter((sent) => sent !== mine);
      next.queued = next.queued.filter(({ id }) => id !== message.id);
    } else if (message.role === "assistant") {
      addResponse(next, message, here, null, null, null);
    } else if (message.call) {
      change(next, message.call, { state: message.is_error ? "failed" : "done", text: message.text });
    }
  });
}

function addResponse(
  next: ThreadState, message: Message, place: Place, model: string | null, usage: Tokens | null, finish: string | null,
) {
  next.items.push({ kind: "assistant", ...place, message, model, usage, finish, turnEnd: null });
  for (const { id, name, arguments: given } of message.calls ?? []) {
    next.calls.set(id, {
      id, name, arguments: given, state: "pending", progress: "", text: "", data: null, started: null,
      milliseconds: null, loaded: [], unloaded: [], approvedBy: null, reply: null,
    });
  }
}

function endTurn(next: ThreadState, event: LoggedEvent & { type: "turn_ended" }, place: Place) {
  const unfinished = next.live.text || next.partial;
  next.partial = "";
  next.status = "idle";
  next.live = { text: "", reasoning: "" };
  next.turnStarted = null;
  next.questions = [];
  next.turnsEnded += 1;
  for (const call of next.calls.values()) {
    if (["pending", "asked", "running"].includes(call.state)) change(next, call.id, { state: "cut_off" });
  }
  const last = next.items.at(-1);
  if (last?.kind === "assistant") next.items[next.items.length - 1] = { ...last, turnEnd: event.number };
  if (event.outcome !== "answered") {
    // The failure of the last model call is why the turn failed: it is told once.
    if (event.outcome === "failed" && last?.kind === "failure") next.items.pop();
    const reason = event.reason || (last?.kind === "failure" ? last.text : "");
    next.items.push({ kind: "outcome", ...place, outcome: event.outcome, reason, unfinished });
  }
}

function change(next: ThreadState, id: string, changes: Partial<Call>) {
  const call = next.calls.get(id);
  if (call) next.calls.set(id, { ...call, ...changes });
}

function changeState(next: ThreadState, loaded?: LoadedSkill[], unloaded?: string[], todos?: Todo[]) {
  if (loaded?.length || unloaded?.length) {
    const gone = new Set([...(unloaded ?? []), ...(loaded ?? []).map(({ name }) => name)]);
    next.skills = [...next.skills.filter(({ name }) => !gone.has(name)), ...(loaded ?? [])];
  }
  if (todos) next.todos = todos;
}

function notice(next: ThreadState, text: string) {
  next.noticesSeen += 1;
  // A server that tries again says the same each time.
  const others = next.notices.filter((known) => known.text !== text);
  next.notices = [...others, { key: next.noticesSeen, text }].slice(-MAX_NOTICES);
}

const tail = (text: string) => (text.length > MAX_PROGRESS ? text.slice(-MAX_PROGRESS) : text);

function since(start: string | null | undefined, end: string): number | null {
  const milliseconds = start ? Date.parse(end) - Date.parse(start) : NaN;
  return milliseconds >= 0 ? milliseconds : null;
}

function errorText(error: Json): string {
  if (typeof error === "string") return error;
  if (error && typeof error === "object" && !Array.isArray(error) && typeof error["message"] === "string") {
    return error["message"];
  }
  return JSON.stringify(error);
}

export function replyText(reply: ReplyKind): string {
  switch (reply) {
    case "approve": return "yes, once";
    case "always": return "yes, always";
    case "edit": return "yes, with other arguments";
    case "reject": return "no";
    case "reject_all": return "no, and no to all other questions";
    default: return reply;
  }
}

/** What a message that the agent added is about: the skill that it loads, or its first line. */
export function addedTitle(text: string): string {
  const skill = /^<skill name="([^"]+)"/.exec(text)?.[1];
  return skill ? `Loaded ${skill}` : text.trim().split("\n", 1)[0] || "Added for the model";
}

/** Why a turn ended without a normal answer, and what a person can do. The server's reason is more exact. */
export function outcomeText(outcome: string, reason: string): { title: string; advice: string } {
  const [title, advice] = OUTCOMES[outcome] ?? ["The turn ended early", "Send a message to continue."];
  const told = reason === "" ? title
    : outcome === "failed" ? `${title}: ${reason}`
    : reason.charAt(0).toUpperCase() + reason.slice(1);
  return { title: told.replace(/[^.!?…]$/, "$&."), advice };
}

const OUTCOMES: Record<string, [title: string, advice: string]> = {
  cancelled: ["The turn was cancelled", "Send a message to continue."],
  failed: ["The model call failed", "Send the message again, or ask the person who runs the server."],
  silent: ["The response was empty", "Send a message to try again."],
  cut_off: ["The response reached its limit of tokens", "Send “continue” to go on."],
  refused: ["The model refused", "Ask in another way."],
  too_many_steps: ["The turn reached its limit of model calls", "Send “continue” to go on."],
  too_many_tokens: ["The turn reached its limit of tokens", "Send “continue” to go on."],
  window_full: ["The conversation fills the model’s context window", "Unload skills, or start a new thread."],
  stopped: ["The turn was stopped", "Send a message to continue."],
};
