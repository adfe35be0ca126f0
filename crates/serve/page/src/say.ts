// Short messages of the page: some are shown for a while, all are read by screen readers.
export interface Said {
  text: string;
  isError: boolean;
}

type Listener = (said: Said) => void;
const shown = new Set<Listener>();
const spoken = new Set<(text: string) => void>();

/** Shows a message for some seconds. */
export function say(text: string, isError = false) {
  shown.forEach((listener) => listener({ text, isError }));
}

/** Has a screen reader read a message. */
export function announce(text: string) {
  spoken.forEach((listener) => listener(text));
}

export function onSay(listener: Listener): () => void {
  shown.add(listener);
  return () => shown.delete(listener);
}

export function onAnnounce(listener: (text: string) => void): () => void {
  spoken.add(listener);
  return () => spoken.delete(listener);
}

/** Runs a request, and shows its error. Returns whether it succeeded. */
export async function attempt(request: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await request();
    if (done) say(done);
    return true;
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
    return false;
  }
}
