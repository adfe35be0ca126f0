import { useId, useRef } from "preact/hooks";
import type { ThreadState } from "../thread";
import { Artifacts } from "./Artifacts";
import { Context } from "./Context";
import { Files } from "./Files";
import { Skills } from "./Skills";
import { Usage } from "./Usage";

export const TABS = ["skills", "context", "files", "artifacts", "usage"] as const;
export type Tab = (typeof TABS)[number];
const NAMES: Record<Tab, string> = {
  skills: "Skills", context: "Context", files: "Files", artifacts: "Artifacts", usage: "Usage",
};

export interface PanelProps {
  name: string;
  state: ThreadState;
  mayWrite: boolean;
  mayApprove: boolean;
  onPreview: (path: string) => void;
}

export function Panel({ tab, onTab, ...props }: PanelProps & { tab: Tab; onTab: (tab: Tab) => void }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const keys = (event: KeyboardEvent) => {
    const at = TABS.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + TABS.length, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = to % TABS.length;
    onTab(TABS[next] ?? tab);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="panel-inner">
      <div ref={list} class="tabs" role="tablist" aria-label="Panel" onKeyDown={keys}>
        {TABS.map((name) => (
          <button
            key={name} type="button" role="tab" id={`${id}-${name}`} aria-selected={name === tab}
            aria-controls={name === tab ? `${id}-panel` : undefined} tabIndex={name === tab ? 0 : -1} onClick={() => onTab(name)}
          >
            {NAMES[name]}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${tab}`} tabIndex={0}>
        {tab === "skills" && <Skills {...props} />}
        {tab === "context" && <Context {...props} />}
        {tab === "files" && <Files {...props} />}
        {tab === "artifacts" && <Artifacts {...props} />}
        {tab === "usage" && <Usage {...props} />}
      </div>
    </div>
  );
}
