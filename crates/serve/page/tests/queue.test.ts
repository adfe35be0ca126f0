import { expect, test } from "vitest";
import type { QueuedThread } from "../src/types";
import { attemptsOf, detailOf } from "../src/views/Queue";

const thread: QueuedThread = {
  thread: "t1", state: "queued", owner: "u1", owner_name: "ada", worker: null, since: "2026-01-02T03:04:05.000Z", not_before: null,
  attempts: 1, failures: 0, problem: null,
};

test("a thread says what helps in its state", () => {
  expect(detailOf(thread)).toBe("");
  expect(detailOf({ ...thread, problem: "the disk was full" })).toBe("");
  expect(detailOf({ ...thread, state: "dead", failures: 5, problem: "the\u202edisk\nwas full" })).toBe("the\\u{202e}disk was full");
  expect(detailOf({ ...thread, state: "working", failures: 1, worker: "process 7 on harbour", problem: "the disk was full" }))
    .toBe("process 7 on harbour");
  expect(detailOf({ ...thread, state: "waiting", failures: 1, not_before: "2026-01-02T03:04:10.000Z", problem: "the disk was full" }))
    .toMatch(/^waits until .*: the disk was full$/);
});

test("an attempt that is under way has not failed", () => {
  expect(attemptsOf({ ...thread, attempts: 6, failures: 5, state: "dead" })).toBe("6 (5 failed)");
  expect(attemptsOf({ ...thread, failures: 1, state: "working" })).toBe("1");
  expect(attemptsOf({ ...thread, attempts: 2, failures: 2, state: "working" })).toBe("2 (1 failed)");
});
