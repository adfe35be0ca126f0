// A conversation with the client of AG-UI: agui.mjs MODULES URL TOKEN
// The client checks the order of the events, and this script checks each of them against the schemas of @ag-ui/core.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const [modules, url, token] = process.argv.slice(2);
const load = createRequire(`${modules}/`);
const { HttpAgent } = load("@ag-ui/client");
const { EventSchema } = load("@ag-ui/core/schemas");

const headers = { authorization: `Bearer ${token}` };
const endpoint = `${url}/agui/prowess`;
let checked = 0;

function agentOf(threadId, more = {}) {
  const agent = new HttpAgent({ url: endpoint, headers, threadId, ...more });
  // A number of a schema makes no difference to JSON, but a field that nobody knows would.
  return agent;
}

// Runs an agent, and gives all of its events.
async function run(agent, parameters = {}) {
  const events = [];
  await agent.runAgent(parameters, {
    onEvent: ({ event }) => {
      checked += 1;
      EventSchema.parse(event);
      events.push(event);
    },
  });
  return events;
}

async function say(agent, content, parameters) {
  agent.addMessage({ id: randomUUID(), role: "user", content });
  return run(agent, parameters);
}

const types = (events) => events.map((event) => event.type);
const last = (events) => events.at(-1);
const custom = (events, name) => events.filter((event) => event.type === "CUSTOM" && event.name === name).map((event) => event.value);
const text = (message) => message.content;

// Events as they are on the wire, without the client.
async function raw(input) {
  const body = JSON.stringify({ runId: randomUUID(), messages: [], tools: [], context: [], state: {}, ...input });
  const response = await fetch(endpoint, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
  assert.equal(response.status, 200, await response.clone().text());
  const events = (await response.text()).split("\n\n").filter((block) => block.startsWith("data:")).map((block) => JSON.parse(block.slice(5)));
  events.forEach((event) => {
    checked += 1;
    EventSchema.parse(event);
  });
  return events;
}

const threadId = `my thread ${randomUUID()}`;
const agent = agentOf(threadId);
let events = await say(agent, "Hello");
assert.equal(events[0].type, "RUN_STARTED");
assert.equal(events[0].threadId, threadId);
assert.equal(last(events).outcome.type, "success");
assert.ok(last(events).usage[0].inputTokens > 0);
assert.deepEqual(agent.messages.map((message) => [message.role, text(message)]), [["user", "Hello"], ["assistant", "Hello there, friend."]]);

// A call of a tool, and the state.
events = await say(agent, "Make a plan");
assert.deepEqual(agent.state.todos, [{ content: "Look", status: "in_progress" }]);
for (const type of ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STATE_DELTA"]) {
  assert.ok(types(events).includes(type), type);
}
assert.equal(text(agent.messages.at(-1)), "Planned.");
const calling = agent.messages.find((message) => message.toolCalls?.length);
assert.equal(calling.toolCalls[0].function.name, "write_todos");
const before = agent.messages.map((message) => message.id);

// A skill is loaded.
events = await say(agent, "Please load it");
const loaded = custom(events, "prowess.skills");
assert.equal(loaded[0].name, "tides");
assert.equal(loaded[0].state, "loaded");
assert.ok(loaded[0].tokens > 0 && loaded[0].digest.length > 20);
assert.equal(agent.state.skills[0].name, "tides");
// Ids do not change from run to run.
assert.deepEqual(agent.messages.slice(0, before.length).map((message) => message.id), before);
assert.equal(new Set(agent.messages.map((message) => message.id)).size, agent.messages.length);

// An interrupt, answered with resume.
events = await say(agent, "Look up the tide");
assert.equal(last(events).outcome.type, "interrupt");
const [interrupt] = agent.pendingInterrupts;
assert.match(interrupt.message, /tides/);
assert.ok(interrupt.responseSchema.properties.reply.enum.includes("approve"));
assert.ok(events.some((event) => event.type === "TOOL_CALL_START" && event.toolCallId === interrupt.toolCallId));
assert.equal(agent.state.questions.length, 1);
events = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { reply: "approve" } }] });
assert.equal(last(events).outcome.type, "success");
assert.match(events.find((event) => event.type === "TOOL_CALL_RESULT").content, /high/);
assert.equal(text(agent.messages.at(-1)), "High.");
assert.equal(agent.state.questions.length, 0);

// The same reply again has no effect, and says so.
events = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { reply: "approve" } }] });
assert.match(custom(events, "prowess.notice")[0].text, /no effect/);
assert.equal(last(events).outcome.type, "success");

// A skill is unloaded.
events = await say(agent, "Please unload it");
if (last(events).outcome?.type === "interrupt") {
  const [unload] = agent.pendingInterrupts;
  events = await run(agent, { resume: [{ interruptId: unload.id, status: "resolved", payload: { reply: "approve" } }] });
}
assert.equal(custom(events, "prowess.skills").at(-1).state, "unloaded");
assert.deepEqual(agent.state.skills, []);

// Two questions: a reply to one of them leaves the other open.
events = await say(agent, "Run both");
assert.equal(agent.pendingInterrupts.length, 2);
const [one, two] = agent.pendingInterrupts;
const some = await raw({ threadId, resume: [{ interruptId: one.id, status: "resolved", payload: { reply: "approve" } }] });
assert.deepEqual(last(some).outcome.interrupts.map((open) => open.id), [two.id]);
// Without a message and a reply, the run says what waits.
const joined = await raw({ threadId });
assert.deepEqual(last(joined).outcome.interrupts.map((open) => open.id), [two.id]);
events = await run(agent, {
  resume: [
    { interruptId: one.id, status: "resolved", payload: { reply: "approve" } },
    { interruptId: two.id, status: "resolved", payload: { reply: "reject", message: "Not now." } },
  ],
});
assert.match(custom(events, "prowess.notice")[0].text, /no effect/);
assert.equal(last(events).outcome.type, "success");
assert.equal(text(agent.messages.at(-1)), "Both.");

// Another client with the same thread has the whole conversation.
const other = agentOf(threadId);
await run(other);
const byId = (messages) => Object.fromEntries(messages.map((message) => [message.id, text(message)]));
assert.deepEqual(byId(other.messages), byId(agent.messages));
assert.equal(other.messages.length, agent.messages.length);

// A failure of the model is an error of the run.
const failing = agentOf(randomUUID());
events = await say(failing, "Now fail");
assert.equal(last(events).type, "RUN_ERROR");

// A client that brings a conversation from elsewhere.
const bringing = agentOf(randomUUID(), {
  initialMessages: [
    { id: randomUUID(), role: "user", content: "My favourite colour is green." },
    { id: randomUUID(), role: "assistant", content: "Good." },
  ],
});
await say(bringing, "Which colour is it?");
assert.equal(text(bringing.messages.at(-1)), "It is green.");

console.log(`@ag-ui/client: ${checked} events fit the schemas, in an order that the client accepts`);
