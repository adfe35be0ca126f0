// What the tests share: the browser, signing in, and the parts of the page by their names for people.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const URL_ = process.env.PROWESS_URL ?? "http://127.0.0.1:4173";
export const TOKEN = process.env.PROWESS_TOKEN;
/** A one-time link. Its test is left out if there is none. */
export const LOGIN = process.env.PROWESS_LOGIN;
/** The directory of the server, if it runs on this machine. */
export const DATA = process.env.PROWESS_DATA;
/** A directory with a page that was built just now, in place of the one in the program. */
const ASSETS = process.env.PROWESS_ASSETS;
/** How long a step of the page may take. */
export const PATIENCE = 20_000;

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function launch() {
  return chromium.launch({
    executablePath: process.env.PROWESS_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

/** A browser profile of its own. Errors on the console, and requests to other servers, make its test fail. */
export async function profile(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const problems = [];
  await context.route((url) => url.protocol.startsWith("http") && url.origin !== new URL(URL_).origin, (route) => {
    problems.push(`a request to ${route.request().url()}`);
    return route.abort();
  });
  if (ASSETS) {
    await context.route(new RegExp(`^${URL_}/(\\?.*|app\\.js|app\\.css)?$`), async (route) => {
      const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
      // The policy stays that of the server.
      await route.fulfill({ response: await route.fetch(), path: join(ASSETS, name) });
    });
  }
  context.on("page", (page) => {
    page.on("pageerror", (error) => problems.push(`an exception: ${error.message}`));
    page.on("console", (message) => {
      // A refused request is a line of the console; the tests provoke some. A sandboxed frame reports what it blocks.
      const text = message.text();
      const isExpected = /Failed to load resource|Blocked script execution in 'blob:|net::ERR_INTERNET_DISCONNECTED/.test(text)
        || (/Content Security Policy/.test(text) && message.location().url.startsWith("blob:"));
      if (message.type() === "error" && !isExpected) problems.push(`the console: ${text}`);
    });
  });
  return { context, problems };
}

/** Signs in with the token, as a person does, and opens the start. */
export async function signIn(context) {
  const page = await context.newPage();
  await page.goto(URL_);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "New thread" }).waitFor();
  return page;
}

/** A request to the API, as a program makes it. */
export async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" };
  const response = await fetch(`${URL_}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.status === 200 ? response.json() : null;
}

export const field = (page) => page.getByRole("textbox", { name: "Message" });
export const answer = (page) => page.getByRole("article", { name: "Agent", exact: true }).last();
export const question = (page) => page.locator("[data-question]");
export const stop = (page) => page.getByRole("button", { name: "Stop" });

export async function send(page, text) {
  await field(page).fill(text);
  await field(page).press("Enter");
}

/** Sends the first message of a new thread. */
export async function begin(page, text) {
  await page.goto(`${URL_}/#/`);
  await page.getByRole("heading", { name: "New thread" }).waitFor();
  await send(page, text);
  await page.waitForURL(/#\/thread\//);
}

/** Waits until no turn is under way. */
export async function idle(page) {
  await stop(page).waitFor({ state: "detached" });
  await page.locator(".message-foot, [data-outcome]").last().waitFor();
}

/** Opens a tab of the panel. On a narrow page the panel is a drawer. */
export async function panel(page, tab) {
  if (!(await page.getByRole("tablist").isVisible())) await page.getByRole("button", { name: "Panel", exact: true }).click();
  await page.getByRole("tab", { name: tab }).click();
  await page.getByRole("tabpanel").waitFor();
}

/** Fails if axe finds a violation, or if the page is wider than its window. */
export async function isAccessible(page, view) {
  // The policy of the page allows no foreign script, so the debugger brings axe.
  const debug = await page.context().newCDPSession(page);
  await page.waitForTimeout(300);
  await debug.send("Runtime.evaluate", { expression: axe });
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"], iframes: false });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target }) => target.join(" ")).join(", ")}`);
  });
  await debug.detach();
  assert.deepEqual(found, [], `axe in the view ${view}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(wide <= 0, `the view ${view} is ${wide} pixels too wide`);
}

/** Fails if a text of others ran as a script. */
export async function isUnharmed(page) {
  assert.equal(await page.evaluate(() => window.__pwned), undefined, "a script of others ran");
}
