import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { attempt } from "../say";
import { cost, fullTime, line, plainSpaces, printable, short } from "../text";
import type { ApiToken, AuditEntry, DailyLimits, Json, Me, User } from "../types";
import { copy } from "./Code";
import { Confirm, Dialog } from "./Dialog";
import { Queue } from "./Queue";
import { WaitingSkills } from "./WaitingSkills";

export function Settings({ me, page, menu }: { me: Me; page: string; menu: ComponentChildren }) {
  const isAdmin = me.user.is_admin && me.scopes.includes("admin");
  const pages = [["tokens", "Tokens"], ...(isAdmin ? [["users", "Users"], ["skills", "Skills"], ["queue", "Queue"], ["audit", "Audit log"]] : [])] as const;
  const shown = pages.some(([name]) => name === page) ? page : "tokens";
  useEffect(() => {
    document.title = "Settings · prowess";
  }, []);
  return (
    <main id="main" class="main" tabIndex={-1}>
      <header class="topbar">{menu}<h1 class="topbar-title">Settings</h1></header>
      <div class="scroller" tabIndex={0} role="region" aria-label="Settings">
        <div class="settings">
          <nav class="subnav" aria-label="Settings">
            {pages.map(([name, text]) => (
              <a key={name} href={`#/settings/${name}`} aria-current={name === shown ? "page" : undefined}>{text}</a>
            ))}
          </nav>
          {shown === "tokens" && <Tokens me={me} />}
          {shown === "users" && <Users me={me} />}
          {shown === "skills" && <WaitingSkills />}
          {shown === "queue" && <Queue />}
          {shown === "audit" && <Audit />}
          <p class="hint">
            prowess {line(me.version)} · <a href="/openapi.json">API</a> · <a href="/licences.txt">Licences of this page</a>
          </p>
        </div>
      </div>
    </main>
  );
}

const SCOPES = [
  ["read", "Read threads, files and skills"], ["write", "Send messages, upload files, start skills"],
  ["approve", "Answer questions"], ["admin", "Manage users and the queue, read the audit log"],
] as const;

function Tokens({ me }: { me: Me }) {
  const { value, error, again } = useLoaded(() => api.tokens(), "tokens");
  const [made, setMade] = useState<ApiToken | null>(null);
  const [revoking, setRevoking] = useState<ApiToken | null>(null);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "write", "approve"].filter((scope) => me.scopes.includes(scope)));
  const id = useId();
  const items = value?.items ?? [];
  const create = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      setMade(await api.createToken(name.trim(), scopes));
      setName("");
      again();
    });
  };
  return (
    <>
      <h2>Your tokens</h2>
      <p class="hint">A token is a password for programs: <code>Authorization: Bearer prowess_…</code>. You see it once.</p>
      {error && <p class="error-text" role="alert">{error}</p>}
      {made?.token && <Secret title={`The token “${line(made.name)}”. Copy it now: it is not shown again.`} text={made.token} />}
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Tokens">
        <table>
          <thead><tr><th scope="col">Name</th><th scope="col">Scopes</th><th scope="col">Created</th><th scope="col">Last used</th><th scope="col">Ends</th><th><span class="unseen">Actions</span></th></tr></thead>
          <tbody>
            {items.map((token) => (
              <tr key={token.id}>
                <th scope="row" dir="auto">
                  {line(token.name)}{token.kind === "session" && <> <span class="tag">{token.is_current ? "this browser" : "signed-in browser"}</span></>}
                </th>
                <td data-label="Scopes">{token.scopes.map(line).join(", ")}</td>
                <td data-label="Created">{fullTime(token.created ?? "")}</td>
                <td data-label="Last used">{fullTime(token.used ?? "") || "–"}</td>
                <td data-label="Ends">{fullTime(token.expires ?? "") || "never"}</td>
                <td class="end"><button type="button" class="small" aria-label={`Revoke ${line(token.name)}`} onClick={() => setRevoking(token)}>Revoke</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <form class="box" onSubmit={create} aria-labelledby={`${id}-new`}>
        <h3 id={`${id}-new`}>New token</h3>
        <label for={`${id}-name`}>Name</label>
        <input id={`${id}-name`} value={name} maxLength={100} dir="auto" onInput={(event) => setName(event.currentTarget.value)} />
        <fieldset>
          <legend>Scopes</legend>
          {SCOPES.filter(([scope]) => me.scopes.includes(scope)).map(([scope, text]) => (
            <label key={scope} class="check">
              <input
                type="checkbox" checked={scopes.includes(scope)}
                onChange={(event) => setScopes(event.currentTarget.checked ? [...scopes, scope] : scopes.filter((other) => other !== scope))}
              />
              <span><strong>{scope}</strong> <span class="muted">{text}</span></span>
            </label>
          ))}
        </fieldset>
        <button type="submit" class="primary" disabled={name.trim() === "" || scopes.length === 0}>Create</button>
      </form>
      {revoking && (
        <Confirm
          title="Revoke the token?" text={revoking.kind === "session" ? (revoking.is_current ? "You are signed out at once." : "The browser of this session is signed out at once.") : `Programs that use “${line(revoking.name)}” lose access at once.`} verb="Revoke"
          onClose={() => setRevoking(null)}
          onConfirm={() => attempt(async () => {
            await api.revokeToken(revoking.id);
            again();
          }, "Revoked.")}
        />
      )}
    </>
  );
}

/** What an entry says, without JSON's marks around it. */
function Facts({ value, names }: { value: Json; names: Map<string, string> }) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return <>{printable(value === null ? "" : JSON.stringify(value))}</>;
  const text = (value: Json) => (typeof value === "string" ? plainSpaces(line(names.get(value) ?? value)) : line(JSON.stringify(value)));
  return (
    <>
      {Object.entries(value).map(([name, value]) => (
        <span key={name} class="fact" dir="auto"><span class="muted">{line(name)}</span> {text(value)}</span>
      ))}
    </>
  );
}

function Secret({ title, text }: { title: string; text: string }) {
  return (
    <div class="secret" role="status">
      <p dir="auto">{title}</p>
      <code>{text}</code>
      <button type="button" class="small" onClick={() => copy(text)}>Copy</button>
    </div>
  );
}

function Users({ me }: { me: Me }) {
  const { value, error, again } = useLoaded(() => api.users(), "users");
  const [name, setName] = useState("");
  const [isAdmin, setAdmin] = useState(false);
  const [made, setMade] = useState<{ id: string; name: string; login: string } | null>(null);
  const [disabling, setDisabling] = useState<User | null>(null);
  const [limiting, setLimiting] = useState<User | null>(null);
  const id = useId();
  const create = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      setMade(await api.createUser(name.trim(), isAdmin));
      setName("");
      setAdmin(false);
      again();
    }, "The user was created.");
  };
  const invite = ({ id, name }: User) => attempt(async () => setMade({ id, name, ...await api.createLogin(id) }));
  const disable = (user: User, isDisabled: boolean) => attempt(async () => {
    await api.disableUser(user.id, isDisabled);
    // The link of a disabled user does not work.
    if (isDisabled && made?.id === user.id) setMade(null);
    again();
  });
  return (
    <>
      <h2>Users</h2>
      {error && <p class="error-text" role="alert">{error}</p>}
      {made && (
        <Secret
          title={`Send this link to ${line(made.name)}. It signs in once, within 15 minutes, and is not shown again.`}
          text={new URL(made.login, location.origin).href}
        />
      )}
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Users">
        <table>
          <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">Limits of a day</th><th><span class="unseen">Actions</span></th></tr></thead>
          <tbody>
            {(value?.items ?? []).map((user) => (
              <tr key={user.id}>
                <th scope="row" dir="auto">{line(user.name)}</th>
                <td data-label="Role">{user.is_admin ? "admin" : "user"}</td>
                <td data-label="State">{user.is_disabled ? "disabled" : "active"}</td>
                <td data-label="Limits of a day">{limitsText(user.daily)}</td>
                <td class="end">
                  <div class="row-buttons">
                    {!user.is_disabled && (
                      <button type="button" class="small" aria-label={`New sign-in link for ${line(user.name)}`} onClick={() => invite(user)}>Sign-in link</button>
                    )}
                    <button type="button" class="small" aria-label={`Limits of ${line(user.name)}`} onClick={() => setLimiting(user)}>Limits…</button>
                    {user.id !== me.user.id && (
                      <button
                        type="button" class="small" aria-label={`${user.is_disabled ? "Enable" : "Disable"} ${line(user.name)}`}
                        onClick={() => (user.is_disabled ? disable(user, false) : setDisabling(user))}
                      >
                        {user.is_disabled ? "Enable" : "Disable…"}
                      </button>
                    )}
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <form class="box" onSubmit={create} aria-labelledby={`${id}-new`}>
        <h3 id={`${id}-new`}>New user</h3>
        <label for={`${id}-name`}>Name</label>
        <input id={`${id}-name`} value={name} maxLength={100} dir="auto" onInput={(event) => setName(event.currentTarget.value)} />
        <label class="check"><input type="checkbox" checked={isAdmin} onChange={(event) => setAdmin(event.currentTarget.checked)} /><span>Admin</span></label>
        <button type="submit" class="primary" disabled={name.trim() === ""}>Create</button>
      </form>
      {disabling && (
        <Confirm
          title={`Disable ${line(disabling.name)}?`} verb="Disable" keep="Cancel" onClose={() => setDisabling(null)}
          text={`${line(disabling.name)} is signed out everywhere, tokens stop working, and turns in progress end. You can enable the user again.`}
          onConfirm={() => disable(disabling, true)}
        />
      )}
      {limiting && (
        <Limits
          user={limiting} onClose={() => setLimiting(null)}
          onDone={() => {
            setLimiting(null);
            again();
          }}
        />
      )}
    </>
  );
}

/** The user's own limits. Where there is none, the server's counts. */
function limitsText(daily: DailyLimits | undefined): string {
  const tokens = daily?.tokens ?? null;
  const own = [tokens === null ? null : `${short(tokens)} tokens`, daily?.cost ? cost(daily.cost) : null];
  return own.filter((limit) => limit !== null).join(", ") || "the server’s";
}

/** Sets what a user may use in a day. */
function Limits({ user, onDone, onClose }: { user: User; onDone: () => void; onClose: () => void }) {
  const [tokens, setTokens] = useState(String(user.daily?.tokens ?? ""));
  const [dollars, setDollars] = useState(user.daily?.cost ?? "");
  const id = useId();
  const problem = /^\d{0,15}$/.test(tokens.trim()) ? null : "A number of tokens has digits only.";
  const costProblem = /^(\d{1,12}(\.\d{1,6})?)?$/.test(dollars.trim()) ? null : "A cost is an amount of dollars, such as 2.50.";
  const save = (event: Event) => {
    event.preventDefault();
    const daily = { tokens: tokens.trim() === "" ? null : Number(tokens.trim()), cost: dollars.trim() || null };
    void attempt(() => api.limitUser(user.id, daily), "The limits were changed.").then((done) => done && onDone());
  };
  const field = (name: string, label: string, value: string, set: (text: string) => void, problem: string | null) => (
    <>
      <label for={`${id}-${name}`}>{label}</label>
      <input
        id={`${id}-${name}`} inputMode="decimal" value={value} placeholder="the server’s" autocomplete="off" maxLength={20}
        aria-invalid={problem !== null} aria-describedby={problem ? `${id}-${name}-problem` : undefined}
        onInput={(event) => set(event.currentTarget.value)}
      />
      {problem && <p id={`${id}-${name}-problem`} class="error-text" role="alert">{problem}</p>}
    </>
  );
  return (
    <Dialog title={`Limits of ${line(user.name)}`} onClose={onClose}>
      <form class="limits" onSubmit={save}>
        <p class="hint">How much the user may use in a day, which begins at midnight in UTC. An empty field stands for the server’s limit.</p>
        {field("tokens", "Tokens in a day", tokens, setTokens, problem)}
        {field("cost", "Cost in a day, in dollars", dollars, setDollars, costProblem)}
        <div class="buttons end">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary" disabled={problem !== null || costProblem !== null}>Save</button>
        </div>
      </form>
    </Dialog>
  );
}

function Audit() {
  const first = useLoaded(() => api.audit(), "audit");
  // Entries have ids of users. A name that cannot be read stays an id.
  const users = useLoaded(() => api.users(), "users");
  const names = new Map((users.value?.items ?? []).map(({ id, name }) => [id, name]));
  const [more, setMore] = useState<AuditEntry[]>([]);
  const [next, setNext] = useState<string | null>(null);
  useEffect(() => {
    setMore([]);
    setNext(first.value?.next ?? null);
  }, [first.value]);
  const showMore = () => attempt(async () => {
    const page = await api.audit(next);
    setMore([...more, ...page.items]);
    setNext(page.next ?? null);
  });
  const items = [...(first.value?.items ?? []), ...more];
  return (
    <>
      <h2>Audit log</h2>
      {first.error && <p class="error-text" role="alert">{first.error}</p>}
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Audit log">
        <table class="audit">
          <thead><tr><th scope="col">Time</th><th scope="col">Done by</th><th scope="col">Action</th><th scope="col">User</th><th scope="col">Thread</th><th scope="col">Detail</th></tr></thead>
          <tbody>
            {items.map((entry) => (
              <tr key={entry.number}>
                <td data-label="Time">{fullTime(entry.at)}</td>
                <td data-label="Done by" dir="auto">{line(names.get(entry.user) ?? entry.user)}</td>
                <td data-label="Action" dir="auto">{line(entry.action)}</td>
                <td data-label="User" dir="auto">{entry.affected === null ? "–" : line(names.get(entry.affected) ?? entry.affected)}</td>
                <td data-label="Thread" class="mono" title={line(entry.thread ?? "")}>{entry.thread === null ? "–" : `…${line(entry.thread).slice(-6)}`}</td>
                <td data-label="Detail" class="audit-detail"><Facts value={entry.detail} names={names} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {next && <button type="button" class="quiet" onClick={showMore}>Show more</button>}
    </>
  );
}
