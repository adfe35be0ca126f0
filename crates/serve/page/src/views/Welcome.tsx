import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { attempt } from "../say";
import { cost, line, short } from "../text";
import type { Me } from "../types";
import { threadHash } from "./App";
import { Composer } from "./Composer";

/** A thread that was just created takes its first message from here. */
export const firstMessages = new Map<string, string>();

/** The start: an agent to choose, and a first message. */
export function Welcome({ me, menu, onChanged }: { me: Me; menu: ComponentChildren; onChanged: () => void }) {
  const agents = useLoaded(() => api.agents(), "agents");
  const usage = useLoaded(() => api.totalUsage(), "usage");
  const [agent, setAgent] = useState("");
  const items = agents.value?.items ?? [];
  const chosen = items.find(({ name }) => name === agent) ?? items[0];
  useEffect(() => {
    document.title = "prowess";
  }, []);

  const begin = (text: string) => attempt(async () => {
    const thread = await api.createThread(chosen?.name);
    firstMessages.set(thread.id, text);
    onChanged();
    location.hash = threadHash(thread.id);
  });
  return (
    <main id="main" class="main" tabIndex={-1}>
      <header class="topbar">{menu}<h1 class="topbar-title">New thread</h1></header>
      <div class="welcome">
        <div class="welcome-inner">
          <h2>What should be done, {line(me.user.name)}?</h2>
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
          <Composer draftKey="" isWorking={false} isDisabled={false} hasFocus onSend={(text) => begin(text)} />
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

/** The limit after a sum, if there is one. */
function of<T>(limit: T | null, text: (limit: T) => string): string {
  return limit === null ? "" : ` of ${text(limit)}`;
}
