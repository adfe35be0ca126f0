import { expect, test } from "vitest";
import { runOf } from "../src/run";

const report = {
  stdout: "a\nb\n", stderr: "no", exit_code: 3, timed_out: false, truncated: false,
  output_files: [{ name: "out/log.txt", path: "/work/out/log.txt", content: "x" }, { name: "out/a.txt", path: "/work/out/a.txt" }],
  artifact_files: [{ name: "out/log.txt", version: 0 }], warnings: ["one was left out"],
};

test("the answer of a run", () => {
  const data = { kind: "ran", exit_code: 3, timed_out: false, files: [{ name: "out/log.txt", bytes: 1 }, { name: "out/a.txt", bytes: 2 }], artifacts: [{ name: "out/log.txt", version: 0 }] };
  const run = {
    exitCode: 3, timedOut: false, stdout: "a\nb\n", stderr: "no", files: ["/work/out/a.txt"],
    artifacts: [{ name: "out/log.txt", version: 0 }], warnings: ["one was left out"],
  };
  expect(runOf(JSON.stringify(report), data)).toEqual(run);
  // Imported conversations have no data.
  expect(runOf(JSON.stringify(report), null)).toEqual(run);
});

test("an answer that is no run, or one that makes no sense", () => {
  expect(runOf("done", null)).toBeNull();
  expect(runOf('{"stdout": "x"}', null)).toBeNull();
  expect(runOf('{"stdout": 5, "exit_code": "0"}', null)).toBeNull();
  expect(runOf("[1]", { kind: "changed_file" })).toBeNull();
  expect(runOf("not JSON", { kind: "ran", exit_code: 0, files: "no", artifacts: [7, { name: 1 }] })).toEqual(
    { exitCode: 0, timedOut: false, stdout: "not JSON", stderr: "", files: [], artifacts: [], warnings: [] },
  );
});
