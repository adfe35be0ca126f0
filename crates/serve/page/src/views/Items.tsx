import { Component, type ComponentChildren, type VNode } from "preact";
import { Markdown, type Links } from "../markdown";
import { count, fullTime, line, printable, prose, short, start, when } from "../text";
import { addedTitle, outcomeText, type Call, type Item, type OpenQuestion } from "../thread";
import { Code, copy } from "./Code";
import { Icon } from "./Icon";
import { ToolCard } from "./ToolCard";

interface Props {
  item: Item;
  calls: Map<string, Call>;
  questions: OpenQuestion[];
  card: (question: OpenQuestion) => VNode;
  links: Links;
  onFork?: (through: number) => void;
}

/** One thing in a conversation. While a response streams, the items above it stay as they are. */
export class ItemView extends Component<Props> {
  override shouldComponentUpdate(next: Props) {
    const { item, calls, questions } = this.props;
    if (next.item !== item) return true;
    const ids = item.kind === "assistant" ? (item.message.calls ?? []).map(({ id }) => id) : [];
    return ids.some((id) => next.calls.get(id) !== calls.get(id))
      || (next.questions !== questions && [...questions, ...next.questions].some(({ call }) => ids.includes(call)));
  }

  render() {
    return show(this.props);
  }
}

function show({ item, calls, questions, card, links, onFork }: Props) {
  switch (item.kind) {
    case "user":
      if (item.message.by === "agent") return <Added text={item.message.text} />;
      return (
        <article class="message user" aria-label="You">
          <h2 class="unseen">You</h2>
          <div class="bubble" dir="auto">{prose(item.message.text)}</div>
        </article>
      );
    case "assistant":
      return (
        <article class="message assistant" aria-label="Agent">
          <h2 class="unseen">Agent</h2>
          <Reasoning text={item.message.reasoning ?? ""} />
          {item.message.text !== "" && <Markdown text={item.message.text} links={links} />}
          {(item.message.calls ?? []).map(({ id }) => {
            const call = calls.get(id);
            return call && (
              <ToolCard key={id} call={call} links={links}>
                {questions.filter((question) => question.call === id).map(card)}
              </ToolCard>
            );
          })}
          {item.turnEnd !== null && (
            <footer class="message-foot">
              <time dateTime={item.at} title={fullTime(item.at)}>{when(item.at)}</time>
              {item.model && <span>{line(item.model)}</span>}
              {item.usage && <span>{short(item.usage.input + item.usage.output)} tokens</span>}
              <button type="button" class="icon-button small" aria-label="Copy the response" title="Copy the response" onClick={() => copy(item.message.text)}>
                <Icon name="copy" />
              </button>
              {onFork && (
                <button type="button" class="icon-button small" aria-label="Fork the thread here" title="Fork the thread here" onClick={() => onFork(item.turnEnd ?? item.number)}>
                  <Icon name="fork" />
                </button>
              )}
            </footer>
          )}
        </article>
      );
    case "compaction":
      return (
        <Separator title={`Compaction: a summary replaced ${count(item.messages, "message")} for the model`}>
          <details class="fold"><summary>Summary</summary><Markdown text={item.summary} links={links} /></details>
        </Separator>
      );
    case "outcome": {
      const { title, advice } = outcomeText(item.outcome, line(item.reason));
      return (
        <>
          {item.unfinished !== "" && (
            <article class="message assistant" aria-label="Agent, stopped">
              <h2 class="unseen">Agent, stopped</h2>
              <Markdown text={item.unfinished} links={links} />
              <footer class="message-foot"><span class="badge">stopped</span>The thread does not keep this unfinished response.</footer>
            </article>
          )}
          <div class={item.outcome === "cancelled" ? "outcome" : "outcome warning"} data-outcome={item.outcome}>
            <strong dir="auto">{title}</strong> {advice}
          </div>
        </>
      );
    }
    case "failure":
      return <div class="outcome warning" dir="auto"><strong>A model call failed.</strong> {line(item.text)}</div>;
  }
}

/** What the agent added for the model, on one line. */
function Added({ text }: { text: string }) {
  return (
    <article class="message by-agent" aria-label="Added by the agent">
      <details class="fold added">
        <summary><h2 dir="auto">{start(line(addedTitle(text)), 120)}</h2></summary>
        <Code text={printable(text)} />
      </details>
    </article>
  );
}

function Separator({ title, children }: { title: string; children: ComponentChildren }) {
  return <div class="separator"><h2 class="separator-title">{title}</h2>{children}</div>;
}

export function Reasoning({ text, isLive = false }: { text: string; isLive?: boolean }) {
  if (text === "") return null;
  return (
    <details class="reasoning">
      <summary>{isLive ? "Reasoning…" : "Reasoning"}</summary>
      <div class="reasoning-text" dir="auto">{prose(text)}</div>
    </details>
  );
}

/** What the model says right now. Screen readers get the whole response at its end. */
export function LiveResponse({ live, links }: { live: { text: string; reasoning: string }; links: Links }) {
  if (live.text === "" && live.reasoning === "") return null;
  return (
    <article class="message assistant live" aria-label="Agent, speaking" data-live="">
      <h2 class="unseen">Agent</h2>
      <Reasoning text={live.reasoning} isLive={live.text === ""} />
      {live.text !== "" && <Markdown text={live.text} links={links} />}
    </article>
  );
}
