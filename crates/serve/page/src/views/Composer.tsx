import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Mode } from "../api";
import { draftOf, idToSend, keepDraft, triedId, wasSent } from "../drafts";
import { Icon } from "./Icon";
import { useSuggestions } from "./useSuggestions";

interface Props {
  draftKey: string;
  isWorking: boolean;
  isDisabled: boolean;
  /** Whether a question waits for a reply. */
  isAsked?: boolean;
  hasFocus?: boolean;
  /** Sends a message with an id of our own, and says whether it arrived. */
  onSend: (text: string, mode: Mode, id: string) => Promise<boolean>;
  /** Whether the thread has a message with this id. */
  hasMessage?: (id: string) => boolean;
  onStop?: () => void;
  onFiles?: (files: File[]) => void;
}

export function Composer(props: Props) {
  const { draftKey, isWorking, isDisabled, isAsked = false, hasFocus = false, onSend, hasMessage, onStop, onFiles } = props;
  const [text, setText] = useState(draftOf(draftKey));
  const [mode, setMode] = useState<Mode>("queue");
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useEffect(() => {
    if (hasFocus && matchMedia("(hover: hover)").matches) field.current?.focus();
  }, []);
  const change = (text: string) => {
    setText(text);
    keepDraft(draftKey, text);
  };
  // A message whose answer was lost may have arrived.
  useEffect(() => {
    const tried = isBusy ? null : triedId(draftKey);
    if (!tried || !hasMessage?.(tried)) return;
    wasSent(draftKey, tried);
    change("");
  });
  const suggestions = useSuggestions(text, change);
  const send = async () => {
    const message = text.trim();
    if (message === "" || isBusy || isDisabled) return;
    setBusy(true);
    const sent = idToSend(draftKey, message);
    change("");
    // A message that was not sent stays where it can be sent again.
    if (await onSend(message, isWorking ? mode : "queue", sent)) wasSent(draftKey, sent);
    else change(message);
    setBusy(false);
    field.current?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    if (suggestions.onKey(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void send();
    }
  };
  return (
    <form
      class="composer" aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {suggestions.list}
      <textarea
        ref={field} {...suggestions.attributes} id={`${id}-text`} class="composer-text" rows={1} value={text} dir="auto" aria-label="Message"
        placeholder={placeholder(isWorking, isAsked)}
        aria-describedby={`${id}-hint`} data-composer=""
        onInput={(event) => change(event.currentTarget.value)} onKeyDown={keys}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length > 0 && onFiles) {
            event.preventDefault();
            onFiles(files);
          }
        }}
      />
      <div class="composer-bar">
        {onFiles && (
          <label class="icon-button" title="Upload files to /project">
            <Icon name="up" />
            <input
              type="file" multiple class="unseen" aria-label="Upload files to /project"
              onChange={(event) => {
                onFiles([...(event.currentTarget.files ?? [])]);
                event.currentTarget.value = "";
              }}
            />
          </label>
        )}
        {isWorking
          ? (
            <fieldset class="segments">
              <legend class="unseen">When to send</legend>
              {(["queue", "interrupt"] as const).map((value) => (
                <label key={value}>
                  <input type="radio" name={`${id}-mode`} checked={mode === value} onChange={() => setMode(value)} />
                  <span>{value === "queue" ? "After this turn" : "Interrupt"}</span>
                </label>
              ))}
            </fieldset>
          )
          : null}
        <span id={`${id}-hint`} class={isWorking ? "unseen" : "hint composer-hint"}>Enter sends, Shift+Enter starts a new line</span>
        <span class="spring" />
        {isWorking && onStop && (
          <button type="button" class="stop" aria-label="Stop" onClick={onStop}><Icon name="stop" /><span class="wide-only">Stop</span></button>
        )}
        <button type="submit" class="primary send" aria-label="Send" title="Send" disabled={isBusy || isDisabled || text.trim() === ""}>
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}

function placeholder(isWorking: boolean, isAsked: boolean): string {
  if (isAsked) return "Reply to the question above, or send a message";
  return isWorking ? "Send a message while the agent works…" : "Send a message, or /skill to start a skill";
}
