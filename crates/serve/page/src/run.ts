// The answer of a run of a skill's command, as a person reads it.
import type { Json } from "./types";

export interface Run {
  exitCode: number;
  timedOut: boolean;
  stdout: string;
  stderr: string;
  /** Files of the workspace that it returned, by their paths in the tree, except those that are artifacts. */
  files: string[];
  artifacts: { name: string; version: number }[];
  warnings: string[];
}

type Fields = { [key: string]: Json };

const fieldsOf = (value: Json | undefined): Fields | null =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
const list = (value: Json | undefined): Fields[] =>
  Array.isArray(value) ? value.map(fieldsOf).filter((fields) => fields !== null) : [];
const string = (value: Json | undefined): string => (typeof value === "string" ? value : "");

/** The run that a tool's answer tells about. Its data says what happened, its text has the output. Null if it is something else. */
export function runOf(text: string, data: Json): Run | null {
  const told = fieldsOf(parsed(text));
  const summary = fieldsOf(data);
  const ran = summary?.["kind"] === "ran" ? summary : null;
  const looksLikeRun = told !== null && typeof told["stdout"] === "string" && typeof told["exit_code"] === "number";
  if (!ran && !looksLikeRun) return null;
  const exitCode = ran?.["exit_code"] ?? told?.["exit_code"];
  if (typeof exitCode !== "number") return null;
  const saved = list(ran?.["artifacts"] ?? told?.["artifact_files"]);
  const returned = list(ran?.["files"] ?? told?.["output_files"]);
  const artifacts = saved.flatMap(({ name, version }) =>
    typeof name === "string" && typeof version === "number" ? [{ name, version }] : []);
  const kept = new Set(artifacts.map(({ name }) => name));
  return {
    exitCode,
    timedOut: (ran?.["timed_out"] ?? told?.["timed_out"]) === true,
    // A run whose answer is no report, such as one in a terminal, has its text.
    stdout: looksLikeRun ? string(told["stdout"]) : text,
    stderr: string(told?.["stderr"]),
    files: returned.map(({ name }) => string(name)).filter((name) => name !== "" && !kept.has(name)).map((name) => `/work/${name}`),
    artifacts,
    warnings: Array.isArray(told?.["warnings"]) ? told["warnings"].filter((text) => typeof text === "string") : [],
  };
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
