// What the tests say to the model, and what the model has to do then. model.js is such a model. It recognises each text by
// itself, as the last message of a person. Every test uses a thread of its own.

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

/**
 * Runs a command that needs approval. It prints WATCHED_LINE and a line with HOSTILE, and then takes far longer than any test.
 */
export const WATCH = "Run the slow command.";
export const WATCHED_LINE = "the gauge is warming up";

/** The text of the response to anything else does not matter. */
export const ANYTHING = "Thank you.";

/**
 * Runs a command that fails with FAILS_CODE after it printed a line with a sum to its output, and FAILS_ERROR to its error
 * output. Both have several blanks in a row.
 */
export const FAILS = "Run the command that fails.";
export const FAILS_CODE = 3;
export const FAILS_ERROR = "no   harbour";

/** Answers with the text that follows, as it is. */
export const REPEAT = "Repeat this text: ";

/**
 * Thinks, plans, loads the skill `tides`, lists files, runs the skill, which saves an artifact, writes a file, and answers
 * with a table, a list and code.
 */
export const WORK = "Plan a boat trip.";
export const WORK_DONE = "The plan is in";

/**
 * Does what a hostile model would do: a plan, a question and a file whose every text is HOSTILE, and a call of a tool with
 * that name. It ends with HOSTILE as its answer.
 */
export const ATTACK = "Do your worst.";

/** Texts that run scripts, or send requests, in a careless page. A script of them sets `window.__pwned`. */
export const HOSTILE = [
  "[click](javascript:window.__pwned=1)",
  "[data](data:text/html,<script>opener.__pwned=1</script>)",
  "![image](https://attacker.example/pixel.png)",
  "<https://attacker.example/?auto>",
  "<script>window.__pwned=1</script>",
  '<img src=x onerror="window.__pwned=1">',
  "<svg/onload=window.__pwned=1>",
  '<iframe srcdoc="<script>parent.__pwned=1</script>"></iframe>',
  '<a href="javascript:window.__pwned=1">tag</a>',
  "<link rel=stylesheet href=//attacker.example/a.css>",
  "invoice\u202egnp.exe",
].join(" ");
/** The same as a name of a file. */
export const HOSTILE_NAME = "<img src=x onerror=window.__pwned=1>\u202egnp.md";
/** What no page may show as it is: it reverses the letters after it. */
export const REVERSES = "\u202e";
