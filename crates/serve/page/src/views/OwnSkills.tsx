import { useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage, useLoaded } from "../hooks";
import { Markdown } from "../markdown";
import { announce, attempt, say } from "../say";
import { bytes, count, fullTime, line, printable } from "../text";
import type { OwnSkill, OwnSkillLook, SkillFile } from "../types";
import { Confirm, Dialog } from "./Dialog";
import { Icon } from "./Icon";

const MAX_FILES = 500;
const STATES: Record<OwnSkill["state"], string> = { waiting: "not trusted", in_use: "trusted", hidden: "hidden" };

/** The skills that the user uploaded. */
export function OwnSkills({ mayWrite, mayApprove, onChanged }: { mayWrite: boolean; mayApprove: boolean; onChanged: () => void }) {
  const { value, error, again } = useLoaded(() => api.ownSkills(), "own-skills");
  const [shown, setShown] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const changed = () => {
    again();
    onChanged();
  };
  if (value?.decider === "off") return null;
  const add = async (file: File) => {
    setBusy(true);
    announce(`Uploading ${line(file.name)}.`);
    try {
      setShown((await api.addOwnSkill(file)).digest);
      changed();
    } catch (error) {
      say(`${line(file.name)}: ${errorMessage(error)}`, true);
    }
    setBusy(false);
  };
  const isMine = value?.decider === "user";
  return (
    <section>
      <h2 class="panel-title">Your skills</h2>
      {error && <p class="error-text" role="alert">{error}</p>}
      {value?.items.length === 0 && (
        <p class="hint">
          Only you have these skills. Your agents see them once {isMine ? "you trust" : "an administrator trusts"} them.
        </p>
      )}
      <ul class="rows" aria-label="Your skills">
        {(value?.items ?? []).map((skill) => (
          <li key={skill.digest} class="skill">
            <div class="row">
              <button type="button" class="row-main link" onClick={() => setShown(skill.digest)}>
                <Icon name="skill" /><span class="cut" dir="auto">{line(skill.name)}</span>
              </button>
              <span class={skill.state === "in_use" ? "tag" : "tag warning"}>{STATES[skill.state]}</span>
              {skill.state === "waiting" && <button type="button" class="small" aria-label={`Review ${line(skill.name)}`} onClick={() => setShown(skill.digest)}>Review</button>}
            </div>
            <p class="skill-text" dir="auto">{line(skill.hidden_by ?? skill.description)}</p>
          </li>
        ))}
      </ul>
      {mayWrite && value && (
        <label class="drop">
          <Icon name="up" />
          <span>{isBusy ? "Uploading…" : "Add a skill: .skill, .zip or .tar.gz"}</span>
          <input
            type="file" class="unseen" aria-label="Add a skill" accept=".skill,.zip,.tar,.gz,.tgz" disabled={isBusy}
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              // The list empties with the field.
              const kept = file && new File([file], file.name);
              event.currentTarget.value = "";
              if (kept) void add(kept);
            }}
          />
        </label>
      )}
      {shown && (
        <OwnSkillView
          digest={shown} mayTrust={isMine && mayApprove} mayRemove={mayWrite} onChanged={changed} onClose={() => setShown(null)}
          hint={isMine ? (mayApprove ? null : "Your token may not trust skills: it needs the scope “approve”.") : "An administrator decides about this skill."}
        />
      )}
    </section>
  );
}

interface ViewProps {
  digest: string;
  /** The user who uploaded it, if an administrator looks at it. */
  owner?: string;
  mayTrust: boolean;
  mayRemove: boolean;
  /** Why the person cannot decide. */
  hint?: string | null;
  onChanged: () => void;
  onClose: () => void;
}

/** What a person should know before they trust a skill, and the decision. */
export function OwnSkillView({ digest, owner, mayTrust, mayRemove, hint, onChanged, onClose }: ViewProps) {
  const { value, error, again } = useLoaded(() => api.ownSkill(digest, owner), digest);
  const [isRemoving, setRemoving] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const decide = async (change: () => Promise<unknown>, done: string) => {
    setBusy(true);
    if (await attempt(change, done)) {
      onChanged();
      again();
    }
    setBusy(false);
  };
  return (
    <Dialog title={value ? line(value.name) : "Skill"} kind="large" onClose={onClose}>
      {error && <p class="error-text" role="alert">{error}</p>}
      {!value && !error && <p class="hint" role="status">Loading…</p>}
      {value && (
        <>
          <div class="buttons own-skill-buttons">
            <span class={value.state === "in_use" ? "tag" : "tag warning"}>{STATES[value.state]}</span>
            {value.state === "waiting" && mayTrust && (
              <button type="button" class="primary" disabled={isBusy} onClick={() => decide(() => api.trustOwnSkill(digest, owner), "Trusted.")}>Trust</button>
            )}
            {value.state !== "waiting" && mayRemove && !owner && (
              <button type="button" disabled={isBusy} onClick={() => decide(() => api.distrustOwnSkill(digest), "Not trusted any more.")}>Do not trust</button>
            )}
            {mayRemove && <button type="button" disabled={isBusy} onClick={() => setRemoving(true)}>{owner ? "Refuse" : "Remove"}</button>}
          </div>
          {value.state === "waiting" && hint && <p class="hint">{hint}</p>}
          {value.hidden_by && <p class="error-text" dir="auto">{line(value.hidden_by)}</p>}
          <Look skill={value} />
        </>
      )}
      {isRemoving && (
        <Confirm
          title={owner ? "Refuse the skill?" : "Remove the skill?"} verb={owner ? "Refuse" : "Remove"}
          text="Its files are deleted for good, and agents see it no more." onClose={() => setRemoving(false)}
          onConfirm={async () => {
            if (await attempt(() => api.removeOwnSkill(digest, owner), owner ? "Refused." : "Removed.")) {
              onChanged();
              onClose();
            }
          }}
        />
      )}
    </Dialog>
  );
}

function Look({ skill }: { skill: OwnSkillLook }) {
  const tools = skill.allowed_tools.join(", ");
  return (
    <>
      <p dir="auto">{line(skill.description)}</p>
      {skill.findings.length > 0 && (
        <>
          <h3>Findings</h3>
          <ul class="findings">{skill.findings.map((finding) => <li key={finding} dir="auto">{line(finding)}</li>)}</ul>
        </>
      )}
      <dl class="facts">
        <div><dt>Uploaded</dt><dd>{fullTime(skill.uploaded)}</dd></div>
        <div><dt>Size</dt><dd>{count(skill.files, "file")}, {bytes(skill.bytes)} with the archive</dd></div>
        {skill.license && <div><dt>Licence</dt><dd dir="auto">{line(skill.license)}</dd></div>}
        {tools && <div><dt>Allowed tools</dt><dd dir="auto">{line(tools)}</dd></div>}
        {skill.needs && <div><dt>Needs</dt><dd dir="auto">{line(skill.needs)}</dd></div>}
        {skill.requirements.map(({ field, value }) => <div key={field}><dt>{line(field)}</dt><dd dir="auto">{line(value)}</dd></div>)}
        {skill.hooks.map(({ event, does }) => <div key={event}><dt>Hook</dt><dd dir="auto">{line(event)}: {line(does.join(" "))}</dd></div>)}
        {skill.left_out.length > 0 && <div><dt>Left out</dt><dd dir="auto">{line(skill.left_out.join(", "))}</dd></div>}
        <div><dt>Digest</dt><dd class="mono">{line(skill.digest)}</dd></div>
      </dl>
      <FileList title="Scripts" files={skill.scripts} isOpen />
      <FileList title="Other files" files={skill.other_files} />
      <h3>Instructions</h3>
      <Markdown text={skill.instructions} />
      <details class="fold"><summary>As text</summary><pre class="mono">{printable(skill.instructions)}</pre></details>
    </>
  );
}

function FileList({ title, files, isOpen = false }: { title: string; files: SkillFile[]; isOpen?: boolean }) {
  if (files.length === 0) return null;
  return (
    <details class="fold" open={isOpen}>
      <summary>{title}: {files.length}</summary>
      <ul class="plain-list">
        {files.slice(0, MAX_FILES).map(({ path, bytes: size }) => (
          <li key={path}><code dir="auto">{line(path)}</code> {size !== null && <span class="muted">{bytes(size)}</span>}</li>
        ))}
        {files.length > MAX_FILES && <li class="hint">and {files.length - MAX_FILES} more</li>}
      </ul>
    </details>
  );
}
