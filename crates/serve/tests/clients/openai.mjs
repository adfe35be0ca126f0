// The client of OpenAI for Node: openai.mjs MODULES URL TOKEN
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, token] = process.argv.slice(2);
const { OpenAI, AuthenticationError, NotFoundError, BadRequestError, ConflictError } = createRequire(`${modules}/`)("openai");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["prowess"]);
assert.equal((await client.models.retrieve("prowess")).object, "model");

const model = "prowess";
const whole = await client.chat.completions.create({ model, messages: [{ role: "user", content: "Hello" }] });
assert.equal(whole.choices[0].message.content, "Hello there, friend.");
assert.equal(whole.choices[0].finish_reason, "stop");
assert.deepEqual([whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens], [100, 10, 110]);

const messages = [
  { role: "system", content: "You know that the colour is green." },
  { role: "user", content: "Which colour is it?" },
];
const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
let pieces = 0;
stream.on("content", () => (pieces += 1));
const completion = await stream.finalChatCompletion();
assert.equal(completion.choices[0].message.content, "It is green.");
assert.equal(completion.usage.total_tokens, 110);
assert.ok(pieces > 0);

// A turn with a tool, in one text.
const planned = await client.chat.completions.create({ model, messages: [{ role: "user", content: "Make a plan" }] });
assert.equal(planned.choices[0].message.content, "Planned.");

// A question ends the answer, with a link.
const asked = await client.chat.completions.create({ model, messages: [{ role: "user", content: "Look up the tide" }] });
assert.ok(asked.choices[0].message.content.startsWith("I ask the tides. \n\nThe agent waits for your reply:"), asked.choices[0].message.content);
assert.ok(asked.choices[0].message.content.includes(`${url}/#/thread/`), asked.choices[0].message.content);
assert.equal(asked.choices[0].finish_reason, "stop");

// Responses, each after the other.
const first = await client.responses.create({ model, input: "Hello, the colour is green." });
assert.equal(first.status, "completed");
assert.ok(first.output_text.length > 0);
const second = await client.responses.create({ model, input: "Which colour is it?", previous_response_id: first.id });
assert.equal(second.output_text, "It is green.");
assert.equal(second.usage.total_tokens, 110);

const types = [];
const streamed = client.responses.stream({ model, input: [{ role: "user", content: "Hello" }], previous_response_id: second.id });
for await (const event of streamed) types.push(event.type);
const final = await streamed.finalResponse();
assert.equal(final.output_text, "Hello there, friend.");
assert.deepEqual(
  types.filter((type, n) => type !== types[n - 1]),
  [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ],
);

// An earlier response goes on in a copy of its thread.
const branch = await client.responses.create({ model, input: "Which colour is it?", previous_response_id: first.id });
assert.equal(branch.output_text, "It is green.");
assert.notEqual(branch.id.split("_")[1], first.id.split("_")[1]);

const question = await client.responses.create({ model, input: "Look up the tide" });
assert.match(question.output_text, /waits for your reply/);
await assert.rejects(client.responses.create({ model, input: "Hello", previous_response_id: question.id }), ConflictError);

const refused = (kind) => (error) => {
  assert.ok(error instanceof kind, String(error));
  assert.ok(error.type && error.code, "an error of OpenAI's form");
  return true;
};
const hello = { model, messages: [{ role: "user", content: "Hello" }] };
await assert.rejects(new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 }).chat.completions.create(hello), refused(AuthenticationError));
await assert.rejects(client.chat.completions.create({ ...hello, model: "other" }), refused(NotFoundError));
await assert.rejects(client.chat.completions.create({ ...hello, messages: [] }), refused(BadRequestError));
const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
await assert.rejects(client.chat.completions.create({ ...hello, tools }), refused(BadRequestError));
await assert.rejects(client.responses.create({ model, input: "Hello", previous_response_id: "resp_1_2" }), refused(NotFoundError));
await assert.rejects(client.chat.completions.create({ model, messages: [{ role: "user", content: "Now fail" }] }), /No such luck/);
const failing = client.chat.completions.stream({ model, messages: [{ role: "user", content: "Now fail" }] });
await assert.rejects(failing.finalChatCompletion(), /No such luck/);

console.log("openai for Node: models, chat completions and responses work");
