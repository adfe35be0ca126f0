// The data of the HTTP API, as the server sends it.

export type Status = "idle" | "queued" | "working" | "waiting" | "dead";
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface List<T> {
  items: T[];
  next?: string | null;
}

export interface User {
  id: string;
  name: string;
  is_admin: boolean;
  is_disabled: boolean;
  created?: string;
  /** The user's own limits. */
  daily?: DailyLimits;
}

/** The most of a day. */
export interface DailyLimits {
  tokens: number | null;
  cost: string | null;
}

export interface Me {
  user: User;
  scopes: string[];
  version: string;
  /** The most bytes of an uploaded file. */
  upload_bytes: number;
}

/** How somebody can sign in, besides a token and a one-time link. */
export interface Ways {
  oidc: { label: string; url: string } | null;
  /** Why the last attempt of this browser failed. */
  refused: string | null;
}

export interface Agent {
  name: string;
  model: string;
  window: number | null;
  description: string;
}

export interface Thread {
  id: string;
  title: string;
  agent: string;
  status: Status;
  created: string;
  changed: string;
  waiting: number;
  tokens: number;
  cost: string | null;
}

export interface ThreadDetail extends Thread {
  questions: Question[];
  skills: LoadedSkill[];
  todos: Todo[];
  last: number;
  /** The conversation. The page reads it from the log instead. */
  messages?: Message[];
  /** Messages that wait until the agent can take them. */
  queued?: QueuedMessage[];
}

export interface QueuedMessage {
  id: string;
  text: string;
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: Json;
}

export interface Message {
  id: string;
  role: "user" | "assistant" | "tool";
  text: string;
  reasoning?: string;
  calls?: ToolCall[];
  call?: string;
  is_error?: boolean;
  by?: string;
}

/** A detail of a question, and how to show it: `plain`, `removed`, `added`, `difference`, `list` or `data`. */
export interface Detail {
  name: string;
  text: string;
  look: string;
}

export interface Question {
  thread: string;
  number: number;
  call: string;
  tool: string;
  title: string;
  /** Why the person is asked again. */
  note: string | null;
  details: Detail[];
  arguments: Json;
  via: string | null;
  can_always: boolean;
  can_edit: boolean;
  /** What the reply "always" would allow. */
  always: string[];
  /** When that ends, such as "until the skill changes". */
  always_ends: string | null;
  at: string;
}

export type ReplyKind = "approve" | "always" | "reject" | "reject_all" | "edit";

export interface Reply {
  reply: ReplyKind;
  message?: string;
  arguments?: Json;
}

export interface LoadedSkill {
  name: string;
  tokens: number;
  digest?: string;
}

export interface Todo {
  content: string;
  status: string;
}

export interface Tokens {
  input: number;
  output: number;
  cached?: number;
}

interface Logged {
  number: number;
  at: string;
}

/** An event of the thread's log. */
export type LoggedEvent = Logged &
  (
    | { type: "turn_started"; messages: Message[] }
    | { type: "imported"; messages: Message[] }
    | { type: "model_called"; model: string }
    | { type: "responded"; model: string; message: Message; usage?: Tokens; finish?: string | null }
    | { type: "model_failed"; error: Json }
    | { type: "tool_started"; call: string }
    | {
        type: "tool_answered";
        call: string;
        text: string;
        is_error?: boolean;
        data?: Json;
        milliseconds?: number;
        loaded?: LoadedSkill[];
        unloaded?: string[];
        todos?: Todo[];
      }
    | { type: "approved"; call: string; by: string }
    | ({ type: "asked" } & Question)
    | { type: "replied"; call: string; question?: number | null; reply: ReplyKind; message?: string; arguments?: Json }
    | { type: "state_changed"; loaded?: LoadedSkill[]; unloaded?: string[]; todos?: Todo[] }
    | { type: "compacted"; messages: number; summary: string }
    | { type: "stopped"; reason: string }
    | { type: "messages_added"; messages: Message[] }
    | { type: "turn_ended"; outcome: string; reason?: string }
  );

/** An event that is not in the log, and has no number. */
export type TransientEvent =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "progress"; call: string; text: string }
  | { type: "notice"; text: string }
  | { type: "status"; status: Status }
  | { type: "live"; text?: string; reasoning?: string; progress?: Record<string, string>; status?: Status }
  | { type: "resume" };

export type StreamEvent = LoggedEvent | TransientEvent;

export interface Skill {
  name: string;
  description: string;
  origin: string;
  trusted: boolean;
  mode: string;
  license: string | null;
  /** Whether a person can start it. */
  startable: boolean;
}

export interface SkillDetail extends Skill {
  instructions: string;
  files: SkillFile[];
  digest: string;
  allowed_tools: string[];
}

export interface SkillFile {
  path: string;
  bytes: number | null;
}

/** A skill that a user uploaded. */
export interface OwnSkill {
  digest: string;
  name: string;
  description: string;
  files: number;
  bytes: number;
  uploaded: string;
  state: "waiting" | "in_use" | "hidden";
  /** What hides it. */
  hidden_by: string | null;
  trusted: string | null;
}

export interface OwnSkillList {
  decider: "off" | "admin" | "user";
  items: OwnSkill[];
}

export interface OwnSkillLook extends OwnSkill {
  license: string | null;
  allowed_tools: string[];
  hooks: { event: string; does: string[] }[];
  needs: string | null;
  requirements: { field: string; value: string }[];
  scripts: SkillFile[];
  other_files: SkillFile[];
  left_out: string[];
  findings: string[];
  instructions: string;
}

export interface WaitingSkill extends OwnSkill {
  /** The id of a user. */
  owner: string;
  owner_name: string;
}

export interface FileEntry {
  name: string;
  path: string;
  kind: "file" | "directory";
  bytes: number | null;
  changed: string | null;
}

export interface Artifact {
  name: string;
  version: number;
  bytes: number;
  mime: string;
}

export interface ContextUse {
  tokens: number;
  window: number | null;
  free: number | null;
  counted: "provider" | "tokenizer" | "estimate";
  parts: { kind: string; name: string; tokens: number }[];
}

export interface CallUsage extends Tokens {
  number: number;
  at: string;
  model: string;
  cost: string | null;
}

export interface ThreadUsage {
  /** One for each model call. */
  model_calls: CallUsage[];
  /** All tokens, with those of sub-agents and summaries. */
  tokens: number;
  cost: string | null;
}

export interface TotalUsage {
  today: { tokens: number; cost: string | null };
  total: { tokens: number; cost: string | null };
  daily: DailyLimits;
}

export interface ApiToken {
  id: string;
  name: string;
  scopes: string[];
  /** `token`, or `session` of a browser. */
  kind?: string;
  created?: string;
  expires?: string | null;
  used?: string | null;
  /** Whether it is the session of this browser. */
  is_current?: boolean;
  token?: string;
}

/** The queue of turns, as administrators see it. */
export interface Queue {
  numbers: QueueNumbers;
  items: QueuedThread[];
  /** How many more there are. */
  left_off: number;
}

export interface QueueNumbers {
  queued: number;
  waiting: number;
  working: number;
  dead: number;
  /** For how many seconds the first thread that a worker can take has waited. */
  age_seconds: number;
}

export interface QueuedThread {
  thread: string;
  state: "queued" | "waiting" | "working" | "dead";
  /** The id and the name of its user. */
  owner: string | null;
  owner_name: string | null;
  worker: string | null;
  since: string;
  /** When a worker can take it, if it waits. */
  not_before: string | null;
  attempts: number;
  /** How many of the last attempts failed. */
  failures: number;
  problem: string | null;
}

export interface AuditEntry {
  number: number;
  at: string;
  /** The id of a user, or `command line`. */
  user: string;
  /** The id of the user to whom it was done, if that is somebody else. */
  affected: string | null;
  action: string;
  thread: string | null;
  detail: Json;
}
