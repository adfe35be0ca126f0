import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { attempt } from "../say";
import { bytes, line } from "../text";
import type { FileEntry } from "../types";
import { Confirm } from "./Dialog";
import { Icon } from "./Icon";
import { Menu, type MenuItem } from "./Menu";
import type { PanelProps } from "./Panel";
import { filesChanged, onFilesChanged, upload } from "./upload";

const ROOTS = [
  { path: "/project", hint: "The thread’s files: your uploads, and what the agent writes." },
  { path: "/work", hint: "The workspace of runs." },
];
const MAX_ENTRIES = 500;

export function Files(props: PanelProps) {
  const { name, state, mayWrite } = props;
  const [changes, setChanges] = useState(0);
  const [isOver, setOver] = useState(false);
  useEffect(() => onFilesChanged(() => setChanges((n) => n + 1)), []);
  const version = `${changes}.${state.filesChanged}.${state.turnsEnded}`;
  return (
    <div
      class={isOver ? "files over" : "files"}
      onDragOver={(event) => {
        if (!mayWrite || !event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        event.stopPropagation();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        if (!mayWrite) return;
        event.preventDefault();
        event.stopPropagation();
        void upload(name, "/project", [...(event.dataTransfer?.files ?? [])]);
      }}
    >
      {mayWrite && (
        <label class="drop">
          <Icon name="up" />
          <span>Upload files, or drop them here</span>
          <input
            type="file" multiple class="unseen" aria-label="Upload files"
            onChange={(event) => {
              // The list empties with the field.
              const files = [...(event.currentTarget.files ?? [])];
              event.currentTarget.value = "";
              void upload(name, "/project", files);
            }}
          />
        </label>
      )}
      {ROOTS.map(({ path, hint }) => (
        <section key={path}>
          <h2 class="panel-title mono">{path}</h2>
          <p class="hint">{hint}</p>
          <Directory {...props} path={path} version={version} />
        </section>
      ))}
    </div>
  );
}

function Directory({ path, version, ...props }: PanelProps & { path: string; version: string }) {
  const { value, error, isLoading } = useLoaded(() => api.files(props.name, path), `${path}#${version}`);
  if (error && !value) return <p class="error-text" role="alert">{error}</p>;
  if (!value) return <p class="hint" role="status">{isLoading ? "Loading…" : ""}</p>;
  if (value.items.length === 0) return <p class="hint">Nothing here.</p>;
  return (
    <ul class="tree">
      {value.items.slice(0, MAX_ENTRIES).map((entry) => <Entry key={entry.path} entry={entry} version={version} {...props} />)}
      {value.items.length > MAX_ENTRIES && <li class="hint">and {value.items.length - MAX_ENTRIES} more</li>}
    </ul>
  );
}

function Entry({ entry, version, ...props }: PanelProps & { entry: FileEntry; version: string }) {
  const [isOpen, setOpen] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const name = line(entry.name);
  if (entry.kind === "directory") {
    return (
      <li>
        <div class="row">
          <button type="button" class="row-main" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <span class="chevron"><Icon name="right" /></span><Icon name="folder" /><span class="cut" dir="auto">{name}</span>
          </button>
        </div>
        {isOpen && <Directory path={entry.path} version={version} {...props} />}
      </li>
    );
  }
  const isOurs = entry.path.startsWith("/project/");
  const items: MenuItem[] = [
    { text: "Download", icon: "download", href: api.fileUrl(props.name, entry.path, true) },
    ...(isOurs && props.mayWrite
      ? [{ text: "Delete", icon: "trash" as const, isDangerous: true, onClick: () => setDeleting(true) }]
      : []),
  ];
  return (
    <li>
      <div class="row">
        <button type="button" class="row-main" onClick={() => props.onPreview(entry.path)}>
          <Icon name="file" /><span class="cut" dir="auto" title={name}>{name}</span>
        </button>
        <span class="muted number">{entry.bytes !== null && bytes(entry.bytes)}</span>
        <Menu label={`Actions for ${name}`} items={items} />
      </div>
      {isDeleting && (
        <Confirm
          title="Delete the file?" text={`${line(entry.path)} is deleted for good.`} verb="Delete" onClose={() => setDeleting(false)}
          onConfirm={async () => {
            if (await attempt(() => api.deleteFile(props.name, entry.path), "Deleted.")) filesChanged();
          }}
        />
      )}
    </li>
  );
}
