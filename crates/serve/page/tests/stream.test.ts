import { expect, test } from "vitest";
import { EventParser, threadEvent, waitBefore, type ServerEvent } from "../src/stream";

const text = 'id: 7\nevent: notice\ndata: {"text":"a"}\n\n: a comment\n\nevent: text\r\ndata: {"text":\r\ndata: "b"}\r\n\r\nid\ndata:x\r\rdata: cut';

const expected: ServerEvent[] = [
  { id: "7", event: "notice", data: '{"text":"a"}' },
  { id: null, event: "text", data: '{"text":\n"b"}' },
  { id: "", event: "message", data: "x" },
];

test("events are the same wherever the stream is cut", () => {
  expect(new EventParser().push(text)).toEqual(expected);
  for (let size = 1; size < 12; size += 1) {
    const parser = new EventParser();
    const events: ServerEvent[] = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    expect(events, `pieces of ${size}`).toEqual(expected);
  }
});

test("an event without data is none, and its fields are forgotten", () => {
  const parser = new EventParser();
  expect(parser.push("id: 4\nevent: text\n\ndata: {}\n\n")).toEqual([{ id: null, event: "message", data: "{}" }]);
});

test("data that is not an object is no event of a thread", () => {
  expect(threadEvent({ id: null, event: "text", data: '{"text":"a"}' })).toEqual({ type: "text", text: "a" });
  expect(threadEvent({ id: null, event: "text", data: "oops" })).toBe(null);
  expect(threadEvent({ id: null, event: "text", data: "null" })).toBe(null);
});

test("attempts wait longer and longer, up to a limit", () => {
  expect([0, 1, 2, 3, 4, 5, 60].map((attempt) => waitBefore(attempt, 1))).toEqual([500, 1000, 2000, 4000, 8000, 15000, 15000]);
  expect(waitBefore(1, 0)).toBe(500);
});
