// The names of all skills, to suggest them while a person types.
import * as api from "./api";
import type { Skill } from "./types";

/** How long the list counts as new. */
const FRESH = 60_000;
/** The most parts of the list that are read. */
const MAX_PARTS = 25;

let known: { at: number; skills: Promise<Skill[]> } | null = null;

/** Reads the list again when it is needed next: the user's own skills changed. */
export function forgetSkills() {
  known = null;
}

/** All skills, read once. */
export function allSkills(): Promise<Skill[]> {
  if (!known || Date.now() - known.at > FRESH) {
    const reading = { at: Date.now(), skills: readAll() };
    reading.skills.catch(() => {
      if (known === reading) known = null;
    });
    known = reading;
  }
  return known.skills;
}

async function readAll(): Promise<Skill[]> {
  const skills: Skill[] = [];
  let after: string | null = null;
  for (let part = 0; part < MAX_PARTS; part += 1) {
    const page: Awaited<ReturnType<typeof api.skills>> = await api.skills("", after, 200);
    skills.push(...page.items);
    after = page.next ?? null;
    if (after === null) break;
  }
  return skills;
}

/** The skills whose names contain a text: first those that begin with it, then those with a word that does, then the others. */
export function named(skills: Skill[], part: string): Skill[] {
  const typed = part.toLowerCase();
  const rank = ({ name }: Skill): number => {
    const at = name.toLowerCase().indexOf(typed);
    if (at <= 0) return at;
    return /[-_.:/ ]/.test(name[at - 1] ?? "") ? 1 : 2;
  };
  return skills
    .map((skill) => ({ skill, rank: rank(skill) }))
    .filter(({ rank }) => rank >= 0)
    .sort((a, b) => a.rank - b.rank || (a.skill.name < b.skill.name ? -1 : 1))
    .map(({ skill }) => skill);
}

/** Skills by their names, and then those that the server finds by words. */
export async function findSkills(text: string): Promise<{ items: Skill[]; byName: number }> {
  const [all, found] = await Promise.all([allSkills().catch((): Skill[] => []), api.skills(text)]);
  const first = named(all, text);
  const names = new Set(first.map(({ name }) => name));
  return { items: [...first, ...found.items.filter(({ name }) => !names.has(name))], byName: first.length };
}
