import { expect, test, vi } from "vitest";
import { request } from "../src/api";
import { draftOf, idToSend, keepDraft, triedId, wasSent } from "../src/drafts";
import { nextWait } from "../src/hooks";
import { newId } from "../src/id";
import { tooLarge } from "../src/views/upload";

test("an id needs no secure context, and is one that the server takes", () => {
  vi.spyOn(crypto, "randomUUID").mockImplementation(() => {
    throw new Error("only over TLS");
  });
  const ids = Array.from({ length: 50 }, newId);
  expect(new Set(ids).size).toBe(50);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
});

test("a message that may have arrived keeps its id, and another text gets another", () => {
  keepDraft("t", "Build it.");
  const id = idToSend("t", "Build it.");
  keepDraft("t", "Build it. ");
  expect(triedId("t")).toBe(id);
  expect(idToSend("t", "Build it.")).toBe(id);
  keepDraft("t", "Test it.");
  expect(triedId("t")).toBeNull();
  const other = idToSend("t", "Test it.");
  expect(other).not.toBe(id);
  wasSent("t", other);
  expect([triedId("t"), draftOf("t")]).toEqual([null, "Test it."]);
  expect(idToSend("t", "Test it.")).not.toBe(other);
  expect(triedId("other")).toBeNull();
});

test("the page asks less and less often while nothing happens", () => {
  let wait = 5_000;
  for (let n = 0; n < 10; n += 1) wait = nextWait(wait, false);
  expect(wait).toBe(30_000);
  expect(nextWait(wait, true)).toBe(5_000);
});

test("a file that is too large is told with the limit", () => {
  expect(tooLarge(64 << 20)).toBeNull();
  expect(tooLarge(80_000_000)).toBe("it has 80 MB, and the server takes files of up to 67 MB.");
});

test("a request that finds the server busy is made once more, if that is worth it", async () => {
  vi.useFakeTimers();
  const busy = (headers: Record<string, string>) => new Response('{"error": {"code": "too_many", "message": "Wait."}}', { status: 429, headers });
  const fetched = vi.spyOn(globalThis, "fetch");
  fetched.mockResolvedValueOnce(busy({ "Retry-After": "1" })).mockResolvedValueOnce(new Response("{}"));
  const found = request("GET", "/threads");
  await vi.runAllTimersAsync();
  expect((await found).status).toBe(200);
  expect(fetched).toHaveBeenCalledTimes(2);
  // A limit of the day, or a server that stays busy.
  fetched.mockImplementation(async () => busy({}));
  await expect(request("GET", "/threads")).rejects.toThrow("Wait.");
  expect(fetched).toHaveBeenCalledTimes(3);
  fetched.mockRestore();
  vi.useRealTimers();
});
