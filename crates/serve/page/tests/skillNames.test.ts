import { expect, test } from "vitest";
import { named } from "../src/skillNames";
import type { Skill } from "../src/types";

const skills = ["pdf", "report-pdf", "xpdf", "PDF-forms", "tides"].map((name) => ({ name }) as Skill);
const names = (part: string) => named(skills, part).map(({ name }) => name);

test("skills by a part of their name: its beginning, a word of it, then anything", () => {
  expect(names("pdf")).toEqual(["PDF-forms", "pdf", "report-pdf", "xpdf"]);
  expect(names("p")).toEqual(["PDF-forms", "pdf", "report-pdf", "xpdf"]);
  expect(names("id")).toEqual(["tides"]);
  expect(names("")).toHaveLength(5);
  expect(names("boat")).toEqual([]);
});
