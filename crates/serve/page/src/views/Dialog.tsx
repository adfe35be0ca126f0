import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./Icon";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  kind?: "box" | "large" | "left" | "right";
  actions?: ComponentChildren;
}

/** A modal dialog or drawer. The browser keeps the focus inside, and gives it back at the end. */
export function Dialog({ title, onClose, children, kind = "box", actions }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Before the browser draws: a key that is pressed now belongs to the dialog.
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog} class={`dialog ${kind}`} aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog-inner">
        <div class="dialog-head">
          <h2 id={heading} dir="auto">{title}</h2>
          {actions}
          <button type="button" class="icon-button" aria-label="Close" title="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </div>
        <div class="dialog-body">{children}</div>
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: ComponentChildren;
  verb: string;
  /** The button that does nothing. */
  keep?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, text, verb, keep = "Keep", onConfirm, onClose }: ConfirmProps) {
  const [isBusy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    await onConfirm();
    onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <p dir="auto">{text}</p>
      <div class="buttons end">
        <button type="button" onClick={onClose}>{keep}</button>
        <button type="button" class="danger" disabled={isBusy} onClick={confirm}>{verb}</button>
      </div>
    </Dialog>
  );
}

/** Asks for one line of text. */
export function Prompt({ title, label, value, verb, onDone, onClose }: {
  title: string; label: string; value: string; verb: string;
  onDone: (text: string) => Promise<unknown>; onClose: () => void;
}) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => input.current?.select(), []);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          await onDone(text.trim());
          onClose();
        }}
      >
        <label for={id}>{label}</label>
        <input id={id} ref={input} value={text} maxLength={200} dir="auto" onInput={(event) => setText(event.currentTarget.value)} />
        <div class="buttons end">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary" disabled={text.trim() === ""}>{verb}</button>
        </div>
      </form>
    </Dialog>
  );
}
