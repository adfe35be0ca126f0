import { useEffect, useId, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage } from "../hooks";
import { say } from "../say";
import { line, plainSpaces, printable, start } from "../text";
import type { OpenQuestion, Action } from "../thread";
import type { Detail, Json, Reply } from "../types";
import { Icon } from "./Icon";
import { Values } from "./Values";

interface Props {
  question: OpenQuestion;
  hasOthers: boolean;
  dispatch: (action: Action) => void;
  mayApprove: boolean;
}

/** A question with everything that a person has to know, and the replies. */
export function QuestionCard({ question, hasOthers, dispatch, mayApprove }: Props) {
  const [asks, setAsks] = useState<"reason" | "edit" | null>(null);
  const [reason, setReason] = useState("");
  const [text, setText] = useState(() => JSON.stringify(question.arguments, null, 2));
  const [problem, setProblem] = useState<string | null>(null);
  const card = useRef<HTMLElement>(null);
  const id = useId();

  const form = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (asks === null) return;
    form.current?.querySelector<HTMLElement>("input, textarea")?.focus({ preventScroll: true });
    form.current?.scrollIntoView({ block: "nearest" });
  }, [asks]);
  // The card leaves when the question is answered. The focus must not go with it: the next question or the message gets it.
  const hasFocus = useRef(false);
  useEffect(() => () => {
    if (!hasFocus.current || document.activeElement !== document.body) return;
    document.querySelector<HTMLElement>("[data-question], [data-composer]")?.focus();
  }, []);

  const send = async (reply: Reply) => {
    // A button that is disabled loses the focus.
    if (card.current?.contains(document.activeElement)) card.current.focus({ preventScroll: true });
    dispatch({ type: "replying", number: question.number });
    try {
      await api.reply(question.thread, question.number, reply);
    } catch (error) {
      if (error instanceof api.ApiError && (error.status === 409 || error.status === 404)) {
        dispatch({ type: "replied_elsewhere", number: question.number });
      } else {
        dispatch({ type: "reply_failed", number: question.number });
        say(errorMessage(error), true);
      }
    }
  };
  const refuse = (reply: "reject" | "reject_all") =>
    send({ reply, ...(reason.trim() && { message: reason.trim() }) });
  const edit = () => {
    let changed: Json;
    try {
      changed = JSON.parse(text);
    } catch (error) {
      setProblem(`This is not JSON: ${errorMessage(error)}`);
      return;
    }
    if (changed === null || typeof changed !== "object" || Array.isArray(changed)) {
      setProblem("The arguments have to be a JSON object.");
      return;
    }
    void send({ reply: "edit", arguments: changed });
  };
  const isBusy = question.isReplying;
  const title = printable(plainSpaces(question.title));
  const rules = question.always.map((rule) => printable(plainSpaces(rule)));

  return (
    <section
      ref={card} class="question" aria-labelledby={`${id}-title`} data-question="" tabIndex={-1}
      onFocusIn={() => (hasFocus.current = true)}
      onFocusOut={(event) => (hasFocus.current = event.relatedTarget === null)}
    >
      <h3 id={`${id}-title`} class="question-title" dir="auto"><Icon name="question" /><span class="two-lines">{title}</span></h3>
      <p class="hint" dir="auto">
        {question.via ? `The sub-agent ${line(question.via)} wants to use ` : "The agent wants to use "}
        <code>{line(question.tool)}</code>.
      </p>
      {question.note && <p class="question-note" dir="auto">{printable(question.note)}</p>}
      {question.details.length > 0 && (
        <div class="details" tabIndex={0} role="group" aria-label="Detail">
          {question.details.map((detail, index) => <DetailLine key={index} detail={detail} />)}
        </div>
      )}
      {question.arguments !== null && (
        <details class="fold">
          <summary>Arguments</summary>
          <Values value={question.arguments} />
        </details>
      )}
      {isLong([title]) && (
        <details class="fold">
          <summary>Whole title</summary>
          <pre class="whole" dir="auto">{title}</pre>
        </details>
      )}
      {question.can_always && <Always rules={rules} ends={question.always_ends} />}
      {!mayApprove && <p class="question-note">Your token may not answer questions.</p>}
      <div class="buttons" role="group" aria-label="Reply">
        <button type="button" class="primary" disabled={isBusy || !mayApprove} onClick={() => send({ reply: "approve" })}>Once</button>
        {question.can_always && (
          <button type="button" disabled={isBusy || !mayApprove} onClick={() => send({ reply: "always" })}>Always</button>
        )}
        <button type="button" disabled={isBusy || !mayApprove} onClick={() => refuse("reject")}>No</button>
        <button type="button" class="quiet" disabled={!mayApprove} aria-expanded={asks === "reason"} onClick={() => setAsks(asks === "reason" ? null : "reason")}>
          No, with a reason…
        </button>
        {question.can_edit && (
          <button type="button" class="quiet" disabled={!mayApprove} aria-expanded={asks === "edit"} onClick={() => setAsks(asks === "edit" ? null : "edit")}>
            Edit…
          </button>
        )}
        {isBusy && <span class="hint" role="status">Sending…</span>}
      </div>
      <div ref={form}>
        {asks === "reason" && (
          <form
            class="reply-form"
            onSubmit={(event) => {
              event.preventDefault();
              void refuse("reject");
            }}
          >
            <label for={`${id}-reason`}>Reason, for the model</label>
            <input id={`${id}-reason`} value={reason} dir="auto" maxLength={4000} onInput={(event) => setReason(event.currentTarget.value)} />
            <div class="buttons">
              <button type="submit" disabled={isBusy}>Send the refusal</button>
              {hasOthers && (
                <button type="button" class="quiet" disabled={isBusy} onClick={() => refuse("reject_all")}>No to all open questions</button>
              )}
            </div>
          </form>
        )}
        {asks === "edit" && (
          <div class="reply-form">
            <label for={`${id}-edit`}>Arguments, as JSON</label>
            <textarea
              id={`${id}-edit`} class="mono" rows={Math.min(16, text.split("\n").length + 1)} value={text} spellcheck={false}
              aria-invalid={problem !== null} aria-describedby={problem ? `${id}-problem` : undefined}
              onInput={(event) => {
                setText(event.currentTarget.value);
                setProblem(null);
              }}
            />
            {problem && <p id={`${id}-problem`} class="error-text" role="alert">{start(problem, 300)}</p>}
            <div class="buttons">
              <button type="button" disabled={isBusy} onClick={edit}>Use these arguments</button>
            </div>
          </div>
        )}
      </div>
    </section>
  );
}

/** Whether texts take more than two lines, as far as one can tell without drawing them. */
function isLong(texts: string[]): boolean {
  return texts.length > 2 || texts.some((text) => text.length > 120 || text.includes("\n"));
}

/** What the reply "always" would allow. Of long rules, the first line is shown until somebody wants to see them. */
function Always({ rules, ends }: { rules: string[]; ends: string | null }) {
  const intro = `“Always” would allow${ends ? `, ${line(ends)}` : ""}:`;
  const list = <ul>{rules.map((rule, index) => <li key={index}><code dir="auto">{rule}</code></li>)}</ul>;
  if (!isLong(rules)) return <div class="exact"><span class="hint">{intro}</span>{list}</div>;
  const more = rules.length > 1 ? ` (and ${rules.length - 1} more)` : "";
  return (
    <details class="exact fold">
      <summary>{intro} <code dir="auto">{start(line(rules[0] ?? ""), 60)}</code>{more}</summary>
      {list}
    </details>
  );
}

/** A detail, exact: nothing is folded or cut. Only a difference, and what is added or removed, has colours. */
function DetailLine({ detail }: { detail: Detail }) {
  const rows = printable(detail.text).replace(/\n$/, "").split("\n");
  return (
    <div class="detail">
      <span class="detail-name">{line(detail.name)}</span>
      {detail.look === "list"
        ? <ul>{rows.map((row, index) => <li key={index}><code dir="auto">{row}</code></li>)}</ul>
        : <pre dir="auto">{rows.map((row, index) => <span key={index} class={tone(row, detail.look)}>{row}{"\n"}</span>)}</pre>}
    </div>
  );
}

function tone(row: string, look: string): string | undefined {
  if (look === "added" || (look === "difference" && row.startsWith("+"))) return "added";
  if (look === "removed" || (look === "difference" && row.startsWith("-"))) return "removed";
  return undefined;
}
