const PATHS = {
  menu: "M3 6h18M3 12h18M3 18h18",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  panel: "M4 5h16v14H4zM15 5v14",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  check: "M5 12l5 5 9-10",
  cross: "M7 7l10 10M17 7L7 17",
  right: "M9 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  up: "M12 15V4M7 9l5-5 5 5M4 17v3h16v-3",
  download: "M12 4v11M7 10l5 5 5-5M4 17v3h16v-3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  folder: "M3 6h6l2 2h10v11H3z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  moon: "M20 14A8.5 8.5 0 0 1 10 4a8.5 8.5 0 1 0 10 10z",
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4v6M9 14v6",
  question: "M9 9a3 3 0 1 1 4 3c-1 .4-1 1-1 2M12 17.5h.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  pencil: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  fork: "M7 4v16M7 12c6 0 10-2 10-7M14 7l3-3 3 3",
  skill: "M12 3l2.6 5.6 6 .8-4.4 4.200 1.100 6L12 16.700 6.700 19.600l1.100-6L3.400 9.400l6-.8z",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 2",
} as const;

export type IconName = keyof typeof PATHS;

/** A picture beside a text or in a button with a name: screen readers leave it out. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width={name === "more" ? 2.6 : 1.8} stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
