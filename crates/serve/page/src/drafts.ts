// What was typed and not sent, for each thread, until the page is closed.
import { newId } from "./id";

interface Draft {
  text: string;
  /** The message that was sent and may have arrived: the same text keeps its id, so that it is not said twice. */
  tried: { text: string; id: string } | null;
}

const drafts = new Map<string, Draft>();

export const draftOf = (key: string): string => drafts.get(key)?.text ?? "";

export function keepDraft(key: string, text: string) {
  drafts.set(key, { text, tried: drafts.get(key)?.tried ?? null });
}

/** The id of a message that is about to be sent. */
export function idToSend(key: string, text: string): string {
  const tried = drafts.get(key)?.tried;
  const id = tried?.text === text ? tried.id : newId();
  drafts.set(key, { text: draftOf(key), tried: { text, id } });
  return id;
}

/** The message arrived: the same text is another message from now on. */
export function wasSent(key: string, id: string) {
  if (drafts.get(key)?.tried?.id === id) drafts.set(key, { text: draftOf(key), tried: null });
}

/** The id of the text in the field, if it was sent before and no answer came. */
export function triedId(key: string): string | null {
  const draft = drafts.get(key);
  return draft?.tried && draft.tried.text === draft.text.trim() ? draft.tried.id : null;
}
