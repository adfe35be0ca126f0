// What the tests say to the model, and what the model has to do then. A scripted model recognises each text by itself, as
// the last message of a person. Every test uses a thread of its own.

/** Answers at once, with Markdown: a heading "A short answer", a list, and a link to https://example.com/. */
export const HELLO = "Say hello in Markdown.";
export const HELLO_HEADING = "A short answer";

/**
 * Calls one tool that needs approval, so that the thread has one open question, which can also be answered "always". After
 * an approval the tool runs, and the model answers with a text that contains TOOL_DONE. After a refusal the model answers
 * with a text that contains TOOL_REFUSED, and the reason if there is one.
 */
export const USE_TOOL = "Use the tool that needs approval.";
export const TOOL_DONE = "The tool was used.";
export const TOOL_REFUSED = "The tool was refused.";

/**
 * Streams a response of at least 40 pieces over at least 8 seconds: "word 1 word 2 …", and ends it with SLOW_END. It has to
 * stop soon after a cancel.
 */
export const SLOW = "Speak slowly.";
export const SLOW_WORD = "word 3";
export const SLOW_END = "the last word";

/** The text of the response to anything else does not matter. */
export const ANYTHING = "Thank you.";

/** Answers with texts that would run scripts in a careless page: HOSTILE, as it is, and a link to javascript:. */
export const HOSTILE_PROMPT = "Repeat this text: ";
export const HOSTILE =
  '[click](javascript:window.hacked=1) <script>window.hacked=1</script><img src=x onerror="window.hacked=1"> ![i](https://example.com/i.png)';
