// Light or dark: what the system says, unless the person chose one. The choice is kept in this browser.
export type Theme = "system" | "light" | "dark";

const KEY = "prowess.theme";
const THEMES: Theme[] = ["system", "light", "dark"];

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(KEY) as Theme | null;
    return kept && THEMES.includes(kept) ? kept : "system";
  } catch {
    // A browser can forbid storage.
    return "system";
  }
}

export function nextTheme(now: Theme): Theme {
  return THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? "system";
}

function show(chosen: Theme) {
  document.documentElement.dataset["theme"] = chosen;
}

export function setTheme(chosen: Theme) {
  show(chosen);
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Then it lasts until the page is closed.
  }
}

export function startTheme() {
  show(theme());
  // Another tab may change it.
  window.addEventListener("storage", (event) => event.key === KEY && show(theme()));
}
