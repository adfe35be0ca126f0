import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { bytes, line } from "../text";
import type { Artifact } from "../types";
import { Icon } from "./Icon";
import type { PanelProps } from "./Panel";
import { ArtifactPreview } from "./Preview";

/** Files that runs saved, with all their versions. */
export function Artifacts({ name, state }: PanelProps) {
  const { value, error, again, isLoading } = useLoaded(() => api.artifacts(name), name);
  const [shown, setShown] = useState<Artifact | null>(null);
  useEffect(() => {
    if (!isLoading) again();
  }, [state.turnsEnded, state.filesChanged]);
  if (error && !value) return <p class="error-text" role="alert">{error}</p>;
  if (!value) return <p class="hint" role="status">Loading…</p>;
  const byName = new Map<string, Artifact[]>();
  for (const artifact of [...value.items].sort((a, b) => b.version - a.version)) {
    byName.set(artifact.name, [...(byName.get(artifact.name) ?? []), artifact]);
  }
  return (
    <>
      <h2 class="panel-title">Artifacts</h2>
      {byName.size === 0 && <p class="hint">No run of this thread has saved a file yet.</p>}
      <ul class="rows">
        {[...byName].map(([title, versions]) => (
          <li key={title}>
            <ul class="rows">
              {versions.map((artifact, index) => (
                <li key={artifact.version} class={index > 0 ? "row older" : "row"}>
                  <button type="button" class="row-main" aria-label={`Preview ${line(title)}, version ${artifact.version}`} onClick={() => setShown(artifact)}>
                    <Icon name="file" /><span class="cut" dir="auto" title={line(title)}>{line(title)}</span>
                  </button>
                  <span class="muted number" title={line(artifact.mime)}>v{artifact.version} · {bytes(artifact.bytes)}</span>
                  <a class="icon-button" href={api.artifactUrl(name, artifact, true)} download aria-label={`Download ${line(title)}, version ${artifact.version}`} title="Download">
                    <Icon name="download" />
                  </a>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
      {shown && <ArtifactPreview name={name} artifact={shown} onClose={() => setShown(null)} />}
    </>
  );
}
