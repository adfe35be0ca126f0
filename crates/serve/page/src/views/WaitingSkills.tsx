import { useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { fullTime, line } from "../text";
import type { WaitingSkill } from "../types";
import { OwnSkillView } from "./OwnSkills";

/** The skills of users that wait for an administrator. */
export function WaitingSkills() {
  const decider = useLoaded(async () => (await api.ownSkills()).decider, "decider");
  return (
    <>
      <h2>Skills of users</h2>
      {decider.error && <p class="error-text" role="alert">{decider.error}</p>}
      {decider.value === "off" && <p class="hint">Users of this server cannot upload skills (<code>--own-skills off</code>).</p>}
      {decider.value === "user" && <p class="hint">Users decide about the skills that they upload. To decide yourself, start the server with <code>--own-skills admin</code>.</p>}
      {decider.value === "admin" && <Waiting />}
    </>
  );
}

function Waiting() {
  const { value, error, again } = useLoaded(() => api.waitingSkills(), "waiting-skills");
  const [shown, setShown] = useState<WaitingSkill | null>(null);
  return (
    <>
      {error && <p class="error-text" role="alert">{error}</p>}
      {value?.items.length === 0 && <p class="hint">No skill waits for you.</p>}
      {value && value.items.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Skills of users">
          <table>
            <thead><tr><th scope="col">Skill</th><th scope="col">User</th><th scope="col">Uploaded</th><th><span class="unseen">Actions</span></th></tr></thead>
            <tbody>
              {value.items.map((skill) => (
                <tr key={`${skill.owner}${skill.digest}`}>
                  <th scope="row" dir="auto">{line(skill.name)}</th>
                  <td dir="auto" data-label="User">{line(skill.owner_name || skill.owner)}</td>
                  <td data-label="Uploaded">{fullTime(skill.uploaded)}</td>
                  <td class="end"><button type="button" class="small" aria-label={`Review ${line(skill.name)}`} onClick={() => setShown(skill)}>Review</button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown && <OwnSkillView digest={shown.digest} owner={shown.owner} mayTrust mayRemove onChanged={again} onClose={() => setShown(null)} />}
    </>
  );
}
