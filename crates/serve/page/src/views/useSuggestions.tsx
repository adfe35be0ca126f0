import { useEffect, useId, useState } from "preact/hooks";
import * as api from "../api";
import { useSettled } from "../hooks";
import { allSkills, named } from "../skillNames";
import { line, start } from "../text";
import type { Skill } from "../types";

const MAX = 6;
/** The server searches words, so it gets no shorter text. */
const MIN_WORD = 3;

/** No suggestion is chosen: those that only fit by their descriptions wait for a person to choose one. */
const NONE = -1;

/** The beginning of a skill's name, if that is all that the message has. */
export function typedSkill(text: string): string | null {
  return /^\/(\S*)$/.exec(text)?.[1] ?? null;
}

/** Skills for a message that begins with a slash: a list to show, the keys that move in it, and the field's attributes. */
export function useSuggestions(text: string, choose: (text: string) => void) {
  const typed = typedSkill(text);
  const settled = useSettled(typed, 120);
  const [skills, setSkills] = useState<Skill[]>([]);
  /** What was typed when the list was made. */
  const [made, setMade] = useState<string | null>(null);
  const [at, setAt] = useState(0);
  const [closed, setClosed] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (settled === null) return setSkills([]);
    let isLast = true;
    const show = (skills: Skill[]) => isLast && setSkills(skills.slice(0, MAX));
    const suggest = async () => {
      const byName = named(await allSkills(), settled).filter(({ startable }) => startable);
      if (!isLast) return;
      show(byName);
      setMade(settled);
      setAt(byName.length > 0 ? 0 : NONE);
      // A message that begins with a path names no skill.
      if (byName.length >= MAX || settled.length < MIN_WORD || settled.includes("/")) return;
      const known = new Set(byName.map(({ name }) => name));
      const { items } = await api.skills(settled);
      const rest = items.filter(({ name, startable }) => startable && !known.has(name));
      show([...byName, ...rest]);
    };
    suggest().catch(() => {});
    return () => {
      isLast = false;
    };
  }, [settled]);

  const isOpen = typed !== null && closed !== text && skills.length > 0;
  const accept = (skill: Skill | undefined) => skill && choose(`/${skill.name} `);
  /** Handles a key of the field, and says whether it did. */
  const onKey = (event: KeyboardEvent): boolean => {
    if (!isOpen || event.isComposing) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const from = at === NONE && event.key === "ArrowUp" ? 0 : at;
      setAt((from + (event.key === "ArrowDown" ? 1 : skills.length - 1)) % skills.length);
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && at !== NONE && made === typed && skills[at]?.name !== typed)) {
      accept(skills[at === NONE ? 0 : at]);
    } else if (event.key === "Escape") {
      setClosed(text);
    } else return false;
    event.preventDefault();
    return true;
  };
  const list = isOpen && (
    <ul class="suggestions" id={id} role="listbox" aria-label="Skills">
      {skills.map((skill, index) => (
        // The field keeps the focus: a press would take it.
        <li
          key={skill.name} id={`${id}-${index}`} role="option" aria-selected={index === at}
          onPointerDown={(event) => event.preventDefault()} onClick={() => accept(skill)}
        >
          <span class="cut" dir="auto">/{line(skill.name)}</span>
          <span class="cut muted" dir="auto">{start(line(skill.description), 120)}</span>
        </li>
      ))}
    </ul>
  );
  const attributes = isOpen
    ? { "aria-autocomplete": "list" as const, "aria-controls": id, ...(at !== NONE && { "aria-activedescendant": `${id}-${at}` }) }
    : {};
  return { list, attributes, onKey };
}
