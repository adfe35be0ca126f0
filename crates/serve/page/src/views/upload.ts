import * as api from "../api";
import { errorMessage } from "../hooks";
import { announce, say } from "../say";
import { count, line } from "../text";

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

/** Uploads files into a directory, one after the other. An error of one does not stop the others. */
export async function upload(thread: string, directory: string, files: File[]): Promise<boolean> {
  let done = 0;
  if (files.length > 0) announce(`Uploading ${count(files.length, "file")}.`);
  for (const file of files) {
    try {
      await api.uploadFile(thread, `${directory}/${fileName(file.name)}`, file);
      done += 1;
    } catch (error) {
      say(`${line(file.name)}: ${errorMessage(error)}`, true);
    }
  }
  if (done > 0) {
    say(done === 1 && files[0] ? `Uploaded ${line(files[0].name)} to ${directory}.` : `Uploaded ${count(done, "file")} to ${directory}.`);
    filesChanged();
  }
  return done > 0;
}
