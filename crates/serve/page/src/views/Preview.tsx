import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { parseCsv } from "../csv";
import { errorMessage } from "../hooks";
import { Markdown } from "../markdown";
import { bytes, line, printable } from "../text";
import type { Artifact } from "../types";
import { Code } from "./Code";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";

const MAX_BYTES = 20_000_000;
const MAX_TEXT = 2_000_000;
const MAX_ROWS = 500;
const MAX_COLUMNS = 60;

export type Kind = "text" | "markdown" | "table" | "image" | "pdf" | "active" | "unknown";

const IMAGES: Record<string, string> = {
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif",
  bmp: "image/bmp", ico: "image/x-icon",
  // As an image, a drawing runs no scripts and loads nothing.
  svg: "image/svg+xml",
};
/** Shown in a frame in which nothing runs. */
const ACTIVE: Record<string, string> = { html: "text/html", htm: "text/html" };
/** Tags of elements for which a browser connects to other servers before it knows that the page's policy forbids that. */
const CONNECTS = /<(\/?)(iframe|frame|frameset|object|embed|applet|link|meta|base|portal|fencedframe)(?=[\s/>])/gi;

/** How a file is shown. Its name decides, never a type that someone else stated. */
export function kindOf(name: string): Kind {
  const end = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  if (end in IMAGES) return "image";
  if (end in ACTIVE) return "active";
  if (end === "pdf") return "pdf";
  if (end === "csv" || end === "tsv") return "table";
  if (end === "md" || end === "markdown") return "markdown";
  return "unknown";
}

function typeOf(name: string): string {
  const end = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  return IMAGES[end] ?? ACTIVE[end] ?? (end === "pdf" ? "application/pdf" : "text/plain");
}

type Content =
  | { kind: "text" | "markdown" | "table"; text: string; isCut: boolean }
  | { kind: "image" | "pdf" | "active"; address: string; text: string }
  | { kind: "unknown"; size: number };

export function FilePreview({ name, path, onClose }: { name: string; path: string; onClose: () => void }) {
  return <Preview title={path} address={api.fileUrl(name, path)} download={api.fileUrl(name, path, true)} onClose={onClose} />;
}

export function ArtifactPreview({ name, artifact, onClose }: { name: string; artifact: Pick<Artifact, "name" | "version">; onClose: () => void }) {
  return (
    <Preview
      title={artifact.name} version={artifact.version} address={api.artifactUrl(name, artifact)} download={api.artifactUrl(name, artifact, true)} onClose={onClose}
    />
  );
}

function Preview({ title, version, address, download, onClose }: {
  title: string; version?: number; address: string; download: string; onClose: () => void;
}) {
  const [content, setContent] = useState<Content | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isSource, setSource] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    let made: string | null = null;
    read(title, address, stop.signal).then(
      (content) => {
        if ("address" in content) made = content.address;
        if (stop.signal.aborted) return made && URL.revokeObjectURL(made);
        setContent(content);
      },
      (error) => !stop.signal.aborted && setError(errorMessage(error)),
    );
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [address]);
  const name = line(title);
  const canSwitch = content?.kind === "markdown" || content?.kind === "table" || content?.kind === "active";
  const actions = (
    <>
      {canSwitch && (
        <button type="button" class="small" aria-pressed={isSource} onClick={() => setSource(!isSource)}>Source</button>
      )}
      <a class="button small" href={download} download aria-label="Download"><Icon name="download" /><span class="wide-only">Download</span></a>
    </>
  );
  return (
    <Dialog title={version === undefined ? name : `${name}, version ${version}`} kind="large" onClose={onClose} actions={actions}>
      <div class="preview">
        {error && <p class="error-text" role="alert">{error}</p>}
        {!content && !error && <p class="hint" role="status">Loading…</p>}
        {content && <Shown content={content} name={name} isSource={isSource} />}
      </div>
    </Dialog>
  );
}

function Shown({ content, name, isSource }: { content: Content; name: string; isSource: boolean }) {
  if (isSource && "text" in content) return <Code text={printable(content.text)} />;
  switch (content.kind) {
    case "text":
      return <><Code text={printable(content.text)} />{content.isCut && <p class="hint">This is the start of the file.</p>}</>;
    case "markdown":
      return <Markdown text={content.text} />;
    case "table":
      return <Table text={content.text} name={name} />;
    case "image":
      return <img class="preview-image" src={content.address} alt={name} />;
    case "pdf":
      return <iframe class="preview-frame" src={content.address} title={name} />;
    case "active":
      // Nothing is allowed: no scripts, no forms, no origin. The address is a blob, which has this page's policy too.
      return (
        <>
          <p class="hint">Scripts, forms and requests to other servers are blocked here.</p>
          <iframe class="preview-frame" sandbox="" referrerpolicy="no-referrer" src={content.address} title={name} />
        </>
      );
    case "unknown":
      return <p class="hint">There is no preview of this file ({bytes(content.size)}). Download it instead.</p>;
  }
}

async function read(name: string, address: string, signal: AbortSignal): Promise<Content> {
  const blob = await api.content(address, signal);
  const kind = kindOf(name);
  if (blob.size > MAX_BYTES) return { kind: "unknown", size: blob.size };
  if (kind === "image" || kind === "pdf" || kind === "active") {
    if (kind !== "active") return { kind, text: "", address: URL.createObjectURL(new Blob([blob], { type: typeOf(name) })) };
    const text = await blob.slice(0, MAX_TEXT).text();
    // No other encoding can hide a tag.
    return { kind, text, address: URL.createObjectURL(new Blob([quiet(text)], { type: `${typeOf(name)};charset=utf-8` })) };
  }
  const text = await textOf(blob.slice(0, MAX_TEXT), blob.size > MAX_TEXT);
  if (text === null) return { kind: "unknown", size: blob.size };
  return { kind: kind === "unknown" ? "text" : kind, text, isCut: blob.size > MAX_TEXT };
}

/** A document in which no element makes a browser connect to other servers: they get names that mean nothing. */
export const quiet = (text: string) => text.replace(CONNECTS, "<$1x-$2");

/** The text of a file, or null if it is something else. */
async function textOf(blob: Blob, isCut: boolean): Promise<string | null> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  if (bytes.subarray(0, 8000).includes(0)) return null;
  try {
    // The end of a cut file can be a part of a character.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
}

function Table({ text, name }: { text: string; name: string }) {
  const { rows, more } = parseCsv(text, MAX_ROWS + 1);
  const [head = [], ...body] = rows;
  const cells = (row: string[]) => row.slice(0, MAX_COLUMNS);
  return (
    <>
      <div class="scroll-x table-box" tabIndex={0} role="group" aria-label={`Table ${name}`}>
        <table>
          <thead><tr>{cells(head).map((cell, index) => <th key={index} scope="col" dir="auto">{printable(cell)}</th>)}</tr></thead>
          <tbody>
            {body.map((row, index) => (
              <tr key={index}>{cells(row).map((cell, index) => <td key={index} dir="auto" class={isNumber(cell) ? "number" : undefined}>{printable(cell)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        {body.length.toLocaleString("en")} rows{more ? "; the file has more" : ""}{head.length > MAX_COLUMNS ? `; the first ${MAX_COLUMNS} of ${head.length} columns` : ""}
      </p>
    </>
  );
}

const isNumber = (cell: string) => /^\s*[-+]?[\d.,]+\s*%?\s*$/.test(cell);
