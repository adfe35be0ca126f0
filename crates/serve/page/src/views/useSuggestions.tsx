import { useEffect, useId, useState } from "preact/hooks";
import * as api from "../api";
import { useSettled } from "../hooks";
import { line, start } from "../text";
import type { Skill } from "../types";

const MAX = 6;

/** The beginning of a skill's name, if that is all that the message has. */
export function typedSkill(text: string): string | null {
  return /^\/(\S*)$/.exec(text)?.[1] ?? null;
}

/** Skills for a message that begins with a slash: a list to show, the keys that move in it, and the field's attributes. */
export function useSuggestions(text: string, choose: (text: string) => void) {
  const typed = typedSkill(text);
  const settled = useSettled(typed, 120);
  const [skills, setSkills] = useState<Skill[]>([]);
  const [at, setAt] = useState(0);
  const [closed, setClosed] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (settled === null) return setSkills([]);
    let isLast = true;
    api.skills(settled).then(
      ({ items }) => {
        if (!isLast) return;
        // The server also finds skills by their descriptions. A message that begins with a path is none of them.
        const part = settled.toLowerCase();
        const place = (skill: Skill) => skill.name.toLowerCase().indexOf(part);
        const named = items.filter((skill) => place(skill) >= 0);
        setSkills(named.sort((a, b) => Number(place(a) > 0) - Number(place(b) > 0)).slice(0, MAX));
        setAt(0);
      },
      () => {},
    );
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
      setAt((at + (event.key === "ArrowDown" ? 1 : skills.length - 1)) % skills.length);
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && skills[at]?.name !== typed)) {
      accept(skills[at]);
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
    ? { "aria-autocomplete": "list" as const, "aria-controls": id, "aria-activedescendant": `${id}-${at}` }
    : {};
  return { list, attributes, onKey };
}
