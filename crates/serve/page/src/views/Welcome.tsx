import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage, useLoaded } from "../hooks";
import { say } from "../say";
import { bytes, cost, line, short } from "../text";
import type { Me } from "../types";
import { threadHash } from "./App";
import { Composer } from "./Composer";
import { Icon } from "./Icon";
import { tooLarge, upload } from "./upload";
import { useDrop } from "./useDrop";

/** The first message of a thread that was just created: the conversation shows it until the log has it. */
export const firstMessages = new Map<string, { id: string; text: string }>();

/** The thread of a message whose answer was lost: the next attempt with the same message continues there. */
let begun: { thread: string; message: string } | null = null;

/** The start: an agent to choose, files, and a first message. */
export function Welcome({ me, menu, onChanged }: { me: Me; menu: ComponentChildren; onChanged: () => void }) {
  const agents = useLoaded(() => api.agents(), "agents");
  const usage = useLoaded(() => api.totalUsage(), "usage");
  const [agent, setAgent] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const items = agents.value?.items ?? [];
  const chosen = items.find(({ name }) => name === agent) ?? items[0];
  useEffect(() => {
    document.title = "prowess";
  }, []);

  const begin = async (text: string, message: string): Promise<boolean> => {
    let thread = begun?.message === message ? begun.thread : null;
    begun = null;
    try {
      thread ??= (await api.createThread(chosen?.name)).id;
      // The upload says what is wrong with a file.
      const isUploaded = files.length === 0 || (await upload(thread, "/project", files)) === files.length;
      if (!isUploaded) {
        await remove(thread);
        return false;
      }
      const { message: id } = await api.startTurn(thread, text, "queue", message);
      firstMessages.set(thread, { id, text });
    } catch (error) {
      say(errorMessage(error), true);
      const isRefused = error instanceof api.ApiError && error.status >= 400 && error.status < 500;
      if (thread && isRefused) await remove(thread);
      else if (thread) begun = { thread, message };
      return false;
    }
    onChanged();
    location.hash = threadHash(thread);
    return true;
  };
  const addFiles = (added: File[]) => {
    const fit = added.filter((file) => {
      const problem = tooLarge(file.size);
      if (problem) say(`${line(file.name)}: ${problem}`, true);
      return !problem;
    });
    const names = new Set(fit.map(({ name }) => name));
    setFiles((files) => [...files.filter(({ name }) => !names.has(name)), ...fit]);
  };
  const { isDropping, drop } = useDrop(addFiles);
  return (
    <main id="main" class={isDropping ? "main dropping" : "main"} tabIndex={-1} {...drop}>
      <header class="topbar">{menu}<h1 class="topbar-title">New thread</h1></header>
      <div class="welcome">
        <div class="welcome-inner">
          <h2>What can I do for you, {line(me.user.name)}?</h2>
          {items.length > 1 && (
            <fieldset class="agents">
              <legend>Agent</legend>
              {items.map((item) => (
                <label key={item.name} class="agent">
                  <input type="radio" name="agent" checked={item === chosen} onChange={() => setAgent(item.name)} />
                  <span>
                    <strong dir="auto">{line(item.name)}</strong> <span class="muted">{line(item.model)}</span>
                    <span class="agent-text" dir="auto">{line(item.description)}</span>
                  </span>
                </label>
              ))}
            </fieldset>
          )}
          {agents.error && <p class="error-text" role="alert">{agents.error}</p>}
          {files.length > 0 && (
            <ul class="chosen-files" aria-label="Files for the first message">
              {files.map((file) => (
                <li key={file.name}>
                  <Icon name="file" /><span class="cut" dir="auto">{line(file.name)}</span> <span class="muted">{bytes(file.size)}</span>
                  <button
                    type="button" class="icon-button small" aria-label={`Leave out ${line(file.name)}`} title="Leave out"
                    onClick={() => setFiles(files.filter((other) => other !== file))}
                  >
                    <Icon name="close" />
                  </button>
                </li>
              ))}
            </ul>
          )}
          <Composer
            draftKey="" isWorking={false} isDisabled={false} hasFocus onSend={(text, _, id) => begin(text, id)} onFiles={addFiles}
          />
          {items.length === 1 && chosen && (
            <p class="hint" dir="auto">{line(chosen.name)} · {line(chosen.model)}{chosen.window ? ` · window of ${short(chosen.window)} tokens` : ""}</p>
          )}
          {usage.value && (
            <p class="hint">
              Today: {short(usage.value.today.tokens)}{of(usage.value.daily.tokens, short)} tokens,{" "}
              {cost(usage.value.today.cost)}{of(usage.value.daily.cost, cost)} ·{" "}
              In all: {short(usage.value.total.tokens)} tokens, {cost(usage.value.total.cost)}
            </p>
          )}
        </div>
      </div>
    </main>
  );
}

/** Deletes a thread without a message. If that fails, an empty thread stays. */
async function remove(thread: string) {
  await api.deleteThread(thread).catch(() => {});
}

/** The limit after a sum, if there is one. */
function of<T>(limit: T | null, text: (limit: T) => string): string {
  return limit === null ? "" : ` of ${text(limit)}`;
}
