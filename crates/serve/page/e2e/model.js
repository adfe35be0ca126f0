// A scripted model for the tests of the page: node e2e/model.js. It speaks chat completions as OpenAI streams them, on a port
// of this machine that its first line of output names, and does what script.js says.
import { createServer } from "node:http";
import {
  ANYTHING, ATTACK, FAILS, FAILS_CODE, FAILS_ERROR, HELLO, HELLO_HEADING, HOSTILE, HOSTILE_NAME, REPEAT, SLOW, SLOW_END,
  TOOL_DONE, TOOL_REFUSED, USE_TOOL, WATCH, WATCHED_LINE, WORK, WORK_DONE,
} from "./script.js";

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Says a text, in pieces of a word. */
const says = (text, milliseconds = 0) => ({ pieces: text.match(/\S*\s*/g).filter(Boolean), milliseconds });
/** Calls tools, after some words. */
const calls = (text, ...calls) => ({ ...says(text), calls });
const call = (name, given) => ({ name, given });

const run = (command, more = {}) => call("skill_run", { skill: "tides", command, ...more });
const hello = `## ${HELLO_HEADING}\n\n- Hello.\n- A [link](https://example.com/), and \`code\`.\n`;
const slow = `${Array.from({ length: 50 }, (_, index) => `word ${index + 1}`).join(" ")} ${SLOW_END}`;

/** The tides of a day, as a table in Markdown. */
const plan = `# A boat trip

| Time | Tide | What to do |
| --- | --- | ---: |
| 06:10 | low | sleep |
| 12:20 | high | **sail** |
| 18:35 | low | be back |

> Take a jacket: the wind turns to the north.
`;

/**
 * The responses to a person's text: one for each model call of the turn. A function gets the answers of the tools so far.
 */
const SCRIPT = {
  [HELLO]: [says(hello)],
  [SLOW]: [says(slow, 100)],
  [ANYTHING]: [says("You are welcome.")],
  [USE_TOOL]: [
    calls("I look up the tide.", run("sh scripts/tides.sh")),
    (answers) => says(answers.at(-1).includes("high at 12:20") ? TOOL_DONE : `${TOOL_REFUSED} ${answers.at(-1)}`),
  ],
  [FAILS]: [
    calls("I try it.", run(
      `for name in north east south west; do\n    echo "looking at the harbour in the $name of the coast, where boats lie" >/dev/null\ndone\n`
        + `echo "sum:  $((20 + 22))"; echo "${FAILS_ERROR}" >&2; mkdir -p out; echo x >out/log.txt; exit ${FAILS_CODE}`,
      { output_files: ["out/*"], save_as_artifacts: true },
    )),
    says("It failed."),
  ],
  [WATCH]: [calls("I run it.", run(`echo '${WATCHED_LINE}'; echo '${HOSTILE}'; sleep 59`)), says("It took too long.")],
  [WORK]: [
    {
      reasoning: "The person wants to sail. I need the tides of the day, and a place for the plan. ",
      ...calls(
        "I make a plan, and load the skill for tides.",
        call("write_todos", {
          todos: [
            { content: "Look up the tides", status: "in_progress" },
            { content: "Write the plan", status: "pending" },
            { content: "Check the weather", status: "pending" },
          ],
        }),
        call("skill_load", { skill: "tides" }),
        call("ls", { path: "/project" }),
      ),
    },
    calls(
      "Now I run the skill’s script.",
      run("sh scripts/tides.sh", { output_files: ["out/*"], save_as_artifacts: true }),
    ),
    calls(
      "The tide is high at noon. I write that down.",
      call("write_file", { file_path: "/project/plan.md", content: plan }),
      call("write_todos", {
        todos: [
          { content: "Look up the tides", status: "completed" },
          { content: "Write the plan", status: "completed" },
          { content: "Check the weather", status: "in_progress" },
        ],
      }),
    ),
    calls("I check the file.", call("read_file", { file_path: "/project/missing.md" })),
    says(`${WORK_DONE} \`/project/plan.md\`.\n\n${plan}\nTo print the tides yourself:\n\n\`\`\`sh\nsh scripts/tides.sh --day 2026-06-01\n\`\`\`\n\n1. Leave at 11:00.\n2. Be back before 18:00.\n`),
  ],
  [ATTACK]: [
    calls(HOSTILE, call("write_todos", { todos: [{ content: HOSTILE, status: "in_progress" }] })),
    calls(HOSTILE, run(`echo '${HOSTILE}'`, { env: { NOTE: HOSTILE }, stdin: HOSTILE })),
    calls(HOSTILE, call("write_file", { file_path: `/project/${HOSTILE_NAME}`, content: HOSTILE })),
    calls(HOSTILE, call("write_file", { file_path: "/project/page.html", content: HOSTILE })),
    calls(HOSTILE, call(HOSTILE, { [HOSTILE]: HOSTILE }), call("skill_load", { skill: HOSTILE })),
    says(HOSTILE),
  ],
};

/** The text of a message. */
function textOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => text ?? "").join("");
}

/** What the model says next. */
function responseTo({ messages }) {
  // Messages that the agent adds are no texts of the script. Messages that follow each other may come as one.
  const known = (message) => {
    if (message.role !== "user") return null;
    const text = textOf(message).trim();
    const found = Object.keys(SCRIPT).find((line) => text === line || text.endsWith(`\n${line}`));
    return found ? SCRIPT[found] : repeated(text);
  };
  const last = messages.findLastIndex(known);
  if (last < 0) {
    console.error("no lines for:", JSON.stringify(messages.filter(({ role }) => role === "user")));
    return says("I have no lines for that.");
  }
  const since = messages.slice(last + 1);
  const steps = known(messages[last]);
  const step = steps[Math.min(since.filter(({ role }) => role === "assistant").length, steps.length - 1)];
  return typeof step === "function" ? step(since.filter(({ role }) => role === "tool").map(textOf)) : step;
}

function repeated(text) {
  const at = text.lastIndexOf(REPEAT);
  return at < 0 ? null : [says(text.slice(at + REPEAT.length))];
}

let made = 0;

async function speak(response, request, model) {
  const send = (chunk) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model, ...chunk })}\n\n`);
  const delta = (delta, reason = null) => send({ choices: [{ index: 0, delta, finish_reason: reason }] });
  const { reasoning, pieces, milliseconds, calls = [] } = responseTo(request);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  delta({ role: "assistant" });
  if (reasoning) delta({ reasoning_content: reasoning });
  for (const piece of pieces) {
    if (response.destroyed) return;
    delta({ content: piece });
    if (milliseconds > 0) await pause(milliseconds);
  }
  calls.forEach(({ name, given }, index) => {
    const id = `call_${process.pid}_${(made += 1)}`;
    delta({ tool_calls: [{ index, id, type: "function", function: { name, arguments: JSON.stringify(given) } }] });
  });
  delta({}, calls.length > 0 ? "tool_calls" : "stop");
  const input = Math.round(JSON.stringify(request).length / 4);
  const cached = Math.round(input * 0.6);
  send({
    choices: [],
    usage: {
      prompt_tokens: input, completion_tokens: pieces.length + 20 * calls.length, total_tokens: input + pieces.length,
      prompt_tokens_details: { cached_tokens: cached },
    },
  });
  response.end("data: [DONE]\n\n");
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request.setEncoding("utf8")) body += piece;
  try {
    const asked = JSON.parse(body);
    await speak(response, asked, asked.model);
  } catch (error) {
    console.error(error);
    response.destroy();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
