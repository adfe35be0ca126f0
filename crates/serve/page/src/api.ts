// The HTTP API. Each function is one request.
import type {
  Agent, ApiToken, Artifact, AuditEntry, ContextUse, DailyLimits, FileEntry, List, LoadedSkill, LoggedEvent, Me, OwnSkillList,
  OwnSkillLook, Question, Queue, Reply, Skill, SkillDetail, Thread, ThreadDetail, ThreadUsage, TotalUsage, User, WaitingSkill, Ways,
} from "./types";

export const ROOT = "/api/v1";
/** How long a request may take, except a transfer of a file. */
const TIMEOUT = 30_000;

/** A request that failed. `status` is 0 if the server could not be reached. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

type Query = Record<string, string | number | undefined | null>;

/** Called on a 401: the session is over. */
let onSignedOut = () => {};
export function whenSignedOut(callback: () => void) {
  onSignedOut = callback;
}
export function signedOut() {
  onSignedOut();
}

export function url(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return ROOT + path + (search ? `?${search}` : "");
}

interface Options {
  query?: Query;
  json?: unknown;
  body?: Blob;
  signal?: AbortSignal;
  /** Whether a 401 is an answer, and not the end of the session. */
  isLogin?: boolean;
  /** Whether the server was busy the first time. */
  isAgain?: boolean;
}

export async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", "X-Prowess": "1" };
  let body: BodyInit | null = null;
  if (options.json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(options.json);
  } else if (options.body) {
    headers["Content-Type"] = "application/octet-stream";
    body = options.body;
  }
  const signal = options.signal ?? (options.body ? null : AbortSignal.timeout(TIMEOUT));
  let response: Response;
  try {
    response = await fetch(url(path, options.query), { method, headers, body, signal, credentials: "same-origin" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "offline", "The server cannot be reached.");
  }
  if (response.ok) return response;
  // Such as a search while another tab searches.
  if (response.status === 429 && response.headers.get("Retry-After") === "1" && !options.isAgain) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    return request(method, path, { ...options, isAgain: true });
  }
  if (response.status === 401 && !options.isLogin) signedOut();
  throw await failure(response);
}

/** The error of a response. A proxy may answer with something that is not JSON. */
export async function failure(response: Response): Promise<ApiError> {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, String(error.code), String(error.message));
  } catch {
    return new ApiError(response.status, "unknown", `The server answered with status ${response.status}.`);
  }
}

async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await request("GET", path, { ...(query && { query }), ...(signal && { signal }) });
  return response.json();
}

async function send<T>(method: string, path: string, json?: unknown): Promise<T> {
  const response = await request(method, path, { json });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

const id = encodeURIComponent;
const thread = (name: string) => `/threads/${id(name)}`;

/** The most bytes of an uploaded file. */
export let uploadLimit = 64 << 20;
export async function me(): Promise<Me> {
  const me = await get<Me>("/me");
  uploadLimit = me.upload_bytes;
  return me;
}
export const logout = () => send<void>("POST", "/logout");
export const ways = () => get<Ways>("/ways");
export const agents = () => get<List<Agent>>("/agents");
export const totalUsage = () => get<TotalUsage>("/usage");

export async function login(token: string): Promise<void> {
  await request("POST", "/login", { json: { token }, isLogin: true });
}

export const threads = (search: string, after?: string | null) =>
  get<List<Thread>>("/threads", { search, after, limit: 50 });
export const createThread = (agent?: string) => send<Thread>("POST", "/threads", agent ? { agent } : {});
/** A thread without its messages: they are in its log. */
export const readThread = (name: string) => get<ThreadDetail>(thread(name), { messages: "false" });
export const renameThread = (name: string, title: string) => send<Thread>("PATCH", thread(name), { title });
export const deleteThread = (name: string) => send<void>("DELETE", thread(name));
export const forkThread = (name: string, through?: number) =>
  send<Thread>("POST", `${thread(name)}/fork`, through === undefined ? {} : { through });
export const exportUrl = (name: string, format: "markdown" | "json") => url(`${thread(name)}/export`, { format });

export type Mode = "queue" | "interrupt" | "reject";
export const startTurn = (name: string, text: string, mode: Mode, key: string) =>
  send<{ message: string }>("POST", `${thread(name)}/turns`, { text, mode, id: key });
export const cancelTurn = (name: string) => send<void>("POST", `${thread(name)}/cancel`);
export const log = (name: string, after: number | null, signal: AbortSignal) =>
  get<{ items: LoggedEvent[]; last: number }>(`${thread(name)}/log`, { after, limit: 1000 }, signal);
export const eventsUrl = (name: string, after: number) => url(`${thread(name)}/events`, { after });

export const questions = () => get<List<Question>>("/questions");
export const reply = (name: string, number: number, answer: Reply) =>
  send<void>("POST", `${thread(name)}/questions/${number}`, answer);

export const skills = (search: string, after?: string | null, limit = 50) =>
  get<List<Skill>>("/skills", { search, after, limit });
export const skill = (name: string) => get<SkillDetail>(`/skills/${id(name)}`);
export const loadedSkills = (name: string) => get<List<LoadedSkill>>(`${thread(name)}/skills`);
export const loadSkill = (name: string, skill: string) => send<void>("POST", `${thread(name)}/skills/${id(skill)}`);
export const unloadSkill = (name: string, skill: string) =>
  send<void>("DELETE", `${thread(name)}/skills/${id(skill)}`);

/** A skill that somebody uploaded: the user, or another user for an administrator. */
const ownSkillPath = (digest: string, owner?: string) =>
  `${owner ? `/users/${id(owner)}` : ""}/own-skills/${id(digest)}`;
export const ownSkills = () => get<OwnSkillList>("/own-skills");
export const waitingSkills = () => get<List<WaitingSkill>>("/waiting-skills", { limit: 200 });
export const addOwnSkill = async (body: Blob): Promise<OwnSkillLook> =>
  (await request("POST", "/own-skills", { body })).json();
export const ownSkill = (digest: string, owner?: string) => get<OwnSkillLook>(ownSkillPath(digest, owner));
export const trustOwnSkill = (digest: string, owner?: string) =>
  send<void>("PUT", `${ownSkillPath(digest, owner)}/trust`);
export const distrustOwnSkill = (digest: string) => send<void>("DELETE", `${ownSkillPath(digest)}/trust`);
export const removeOwnSkill = (digest: string, owner?: string) => send<void>("DELETE", ownSkillPath(digest, owner));

export const files = (name: string, path: string) =>
  get<List<FileEntry> & { path: string }>(`${thread(name)}/files`, { path });
export const fileUrl = (name: string, path: string, download = false) =>
  url(`${thread(name)}/files/content`, { path, download: download ? 1 : null });
export const deleteFile = async (name: string, path: string) => {
  await request("DELETE", `${thread(name)}/files/content`, { query: { path } });
};
export const uploadFile = async (name: string, path: string, body: Blob) => {
  await request("PUT", `${thread(name)}/files/content`, { query: { path }, body });
};

export const artifacts = (name: string) => get<List<Artifact>>(`${thread(name)}/artifacts?versions=all`);
export const artifactUrl = (name: string, artifact: Pick<Artifact, "name" | "version">, download = false) =>
  url(`${thread(name)}/artifacts/content`, {
    name: artifact.name, version: artifact.version, download: download ? 1 : null,
  });

/** Reads a file or an artifact, whose address one of the functions above made. */
export async function content(address: string, signal: AbortSignal): Promise<Blob> {
  const response = await request("GET", address.slice(ROOT.length), { signal });
  return response.blob();
}

export const context = (name: string) => get<ContextUse>(`${thread(name)}/context`);
export const usage = (name: string) => get<ThreadUsage>(`${thread(name)}/usage`);

export const tokens = () => get<List<ApiToken>>("/tokens");
export const createToken = (name: string, scopes: string[]) => send<ApiToken>("POST", "/tokens", { name, scopes });
export const revokeToken = (token: string) => send<void>("DELETE", `/tokens/${id(token)}`);
export const users = () => get<List<User>>("/users");
export const createUser = (name: string, is_admin: boolean) =>
  send<User & { login: string }>("POST", "/users", { name, is_admin });
export const createLogin = (user: string) => send<{ login: string }>("POST", `/users/${id(user)}/login`);
export const disableUser = (user: string, is_disabled: boolean) =>
  send<void>("PATCH", `/users/${id(user)}`, { is_disabled });
/** A limit of `null` stands for the server's. */
export const limitUser = (user: string, daily: DailyLimits) => send<void>("PATCH", `/users/${id(user)}`, { daily });
export const queue = () => get<Queue>("/queue", { limit: 100 });
export const retryThread = (name: string) => send<void>("POST", `/queue/${id(name)}/retry`);
export const dropThread = (name: string) => send<void>("POST", `/queue/${id(name)}/drop`);
export const audit = (after?: string | null) => get<List<AuditEntry>>("/audit", { after, limit: 100 });
