import * as api from "../api";
import { errorMessage } from "../hooks";
import { announce, say } from "../say";
import { bytes, count, line } from "../text";

/** Called after an upload or a deletion, so that the list of files is read again. */
const listeners = new Set<() => void>();
export function onFilesChanged(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
export function filesChanged() {
  listeners.forEach((listener) => listener());
}

/** A name that a path can have. A browser gives names without a directory. */
export function fileName(name: string): string {
  const safe = name.replace(/[/\\\u0000-\u001f]/g, "_");
  return safe === "" || safe === "." || safe === ".." ? "file" : safe;
}

/** Why a file cannot be uploaded because of its size. */
export function tooLarge(size: number): string | null {
  return size > api.MAX_UPLOAD ? `it has ${bytes(size)}, and the server takes files of up to ${bytes(api.MAX_UPLOAD)}.` : null;
}

/** Uploads files into a directory, one after the other. An error of one does not stop the others. Returns how many arrived. */
export async function upload(thread: string, directory: string, files: File[]): Promise<number> {
  let done = 0;
  if (files.length > 0) announce(`Uploading ${count(files.length, "file")}.`);
  for (const file of files) {
    const problem = tooLarge(file.size);
    if (problem) {
      say(`${line(file.name)}: ${problem}`, true);
      continue;
    }
    try {
      await api.uploadFile(thread, `${directory}/${fileName(file.name)}`, file);
      done += 1;
    } catch (error) {
      const isSize = error instanceof api.ApiError && error.status === 413;
      say(`${line(file.name)}: ${isSize ? `it has ${bytes(file.size)}, which is more than the server or its proxy takes.` : errorMessage(error)}`, true);
    }
  }
  if (done > 0) {
    say(done === 1 && files[0] ? `Uploaded ${line(files[0].name)} to ${directory}.` : `Uploaded ${count(done, "file")} to ${directory}.`);
    filesChanged();
  }
  return done;
}
