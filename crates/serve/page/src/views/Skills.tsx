import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded, useSettled } from "../hooks";
import { Markdown } from "../markdown";
import { attempt } from "../say";
import { findSkills, forgetSkills } from "../skillNames";
import { bytes, count, line, short } from "../text";
import type { List, Skill } from "../types";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import { OwnSkills } from "./OwnSkills";
import type { PanelProps } from "./Panel";

export function Skills({ name, state, mayWrite, mayApprove }: PanelProps) {
  const [search, setSearch] = useState("");
  const settled = useSettled(search.trim(), 250);
  const found = useLoaded<List<Skill>>(() => (settled ? findSkills(settled) : api.skills("")), settled);
  const [more, setMore] = useState<Skill[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [shown, setShown] = useState<string | null>(null);
  useEffect(() => {
    setMore([]);
    setNext(found.value?.next ?? null);
  }, [found.value]);
  const loaded = new Map(state.skills.map((skill) => [skill.name, skill]));
  const total = state.skills.reduce((sum, { tokens }) => sum + tokens, 0);
  const showMore = () => attempt(async () => {
    const page = await api.skills(settled, next);
    setMore([...more, ...page.items]);
    setNext(page.next ?? null);
  });
  const items = [...(found.value?.items ?? []), ...more];
  return (
    <>
      <section>
        <h2 class="panel-title">Loaded <span class="muted">{state.skills.length > 0 && `${count(state.skills.length, "skill")}, ${short(total)} tokens`}</span></h2>
        {state.skills.length === 0 && <p class="hint">No skill is loaded. The agent loads what it needs, or you start one.</p>}
        <ul class="rows">
          {state.skills.map((skill) => (
            <li key={skill.name} class="row">
              <button type="button" class="row-main link" onClick={() => setShown(skill.name)}>
                <Icon name="skill" /><span class="cut" dir="auto">{line(skill.name)}</span>
              </button>
              <span class="muted number">{short(skill.tokens)}</span>
              {mayWrite && <Start thread={name} skill={skill.name} isLoaded />}
            </li>
          ))}
        </ul>
      </section>
      <OwnSkills
        mayWrite={mayWrite} mayApprove={mayApprove} onChanged={() => {
          forgetSkills();
          found.again();
        }}
      />
      <section>
        <h2 class="panel-title">All skills</h2>
        <div class="search">
          <Icon name="search" />
          <input type="search" value={search} placeholder="Search skills" aria-label="Search skills" dir="auto" onInput={(event) => setSearch(event.currentTarget.value)} />
        </div>
        {found.error && <p class="error-text" role="alert">{found.error}</p>}
        {found.value && items.length === 0 && <p class="hint">{settled ? "No skill matches." : "This server has no skills."}</p>}
        <ul class="rows">
          {items.map((skill) => (
            <li key={skill.name} class="skill">
              <div class="row">
                <button type="button" class="row-main link" onClick={() => setShown(skill.name)}><span class="cut" dir="auto">{line(skill.name)}</span></button>
                {!skill.trusted && <span class="tag warning">not trusted</span>}
                {mayWrite && (skill.startable || loaded.has(skill.name)
                  ? <Start thread={name} skill={skill.name} isLoaded={loaded.has(skill.name)} />
                  : <span class="tag" title="Ask the agent to do the skill’s task.">agent only</span>)}
              </div>
              <p class="skill-text" dir="auto">{line(skill.description)}</p>
            </li>
          ))}
        </ul>
        {next && <button type="button" class="quiet" onClick={showMore}>Show more</button>}
      </section>
      {shown && <SkillView name={shown} onClose={() => setShown(null)} />}
    </>
  );
}

/** Starts a skill: the agent works with it at once. A loaded skill can be unloaded instead. */
function Start({ thread, skill, isLoaded }: { thread: string; skill: string; isLoaded: boolean }) {
  const [isBusy, setBusy] = useState(false);
  // The stream says when it happened.
  useEffect(() => setBusy(false), [isLoaded]);
  const change = async () => {
    setBusy(true);
    const done = await attempt(() => isLoaded ? api.unloadSkill(thread, skill) : api.loadSkill(thread, skill));
    if (!done) setBusy(false);
    else setTimeout(() => setBusy(false), 3000);
  };
  return (
    <button
      type="button" class="small" disabled={isBusy} aria-label={`${isLoaded ? "Unload" : "Start"} ${line(skill)}`} onClick={change}
      title={isLoaded ? "Takes the skill’s text out of the conversation" : `Sends “/${line(skill)}” as your message: the agent starts to work with the skill`}
    >
      {isLoaded ? "Unload" : "Start"}
    </button>
  );
}

function SkillView({ name, onClose }: { name: string; onClose: () => void }) {
  const { value, error } = useLoaded(() => api.skill(name), name);
  const tools = value?.allowed_tools.join(", ");
  return (
    <Dialog title={line(name)} kind="large" onClose={onClose}>
      {error && <p class="error-text" role="alert">{error}</p>}
      {!value && !error && <p class="hint" role="status">Loading…</p>}
      {value && (
        <>
          <p dir="auto">{line(value.description)}</p>
          <dl class="facts">
            <div><dt>Origin</dt><dd dir="auto">{line(value.origin)}</dd></div>
            <div><dt>Trusted</dt><dd>{value.trusted ? "yes" : "no"}</dd></div>
            <div><dt>Mode</dt><dd>{line(value.mode)}</dd></div>
            {value.license && <div><dt>Licence</dt><dd dir="auto">{line(value.license)}</dd></div>}
            {tools && <div><dt>Allowed tools</dt><dd dir="auto">{line(tools)}</dd></div>}
            <div><dt>Digest</dt><dd class="mono">{line(value.digest)}</dd></div>
          </dl>
          {value.files.length > 0 && (
            <details class="fold">
              <summary>{count(value.files.length, "file")}</summary>
              <ul class="plain-list">
                {value.files.slice(0, 500).map(({ path, bytes: size }) => (
                  <li key={path}><code dir="auto">{line(path)}</code> {size !== null && <span class="muted">{bytes(size)}</span>}</li>
                ))}
              </ul>
            </details>
          )}
          <h3>Instructions</h3>
          <Markdown text={value.instructions} />
        </>
      )}
    </Dialog>
  );
}
