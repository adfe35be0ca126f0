// Signs in to the server in Chromium, with the account of an issuer: node oidc.mjs DIRECTORY URL ISSUER
// PROWESS_CHROMIUM is the browser. The server admits everybody of the issuer, and calls it Example.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [directory, url, issuer] = process.argv.slice(2);
const { chromium } = createRequire(`${directory}/node_modules/`)("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.PROWESS_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"],
});

/** A browser that has seen nothing yet, on the forms of the issuer. */
async function begin() {
  const context = await browser.newContext();
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  await page.goto(url);
  await page.getByRole("link", { name: "Sign in with Example" }).click();
  await page.waitForURL(`${issuer}/**`);
  return { context, page };
}

async function signIn(name) {
  const { context, page } = await begin();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  // The issuer asks whether the server may know the account.
  await page.getByText("Authorize").first().waitFor();
  await page.locator("button[type=submit]").click();
  await page.waitForURL(`${url}/**`);
  return { context, page };
}

// A person comes in, and the page works with the new session, although another site led here.
const { context, page } = await signIn("ada");
await page.getByRole("heading", { name: "New thread" }).waitFor();
assert.equal(page.url().replace(/#.*/, ""), `${url}/`);
const me = await page.evaluate(async () => (await fetch("/api/v1/me")).json());
assert.deepEqual([me.user.name, me.user.is_admin], ["ada", false]);
const session = (await context.cookies(url)).find(({ name }) => name.startsWith("prowess_session"));
assert.deepEqual([session.httpOnly, session.sameSite], [true, "Strict"]);
assert.ok(!(await context.cookies(url)).some(({ name }) => name.startsWith("prowess_oidc")), "the attempt is forgotten");
// Nobody finds the code in the history of the browser.
const debug = await context.newCDPSession(page);
const { entries } = await debug.send("Page.getNavigationHistory");
assert.ok(!entries.some((entry) => entry.url.includes("code=")), JSON.stringify(entries.map((entry) => entry.url)));
await page.reload();
await page.getByRole("heading", { name: "New thread" }).waitFor();
await context.close();

// Somebody else with the name of the administrator is somebody else.
const other = await signIn("admin");
await other.page.getByRole("heading", { name: "New thread" }).waitFor();
const eve = await other.page.evaluate(async () => (await fetch("/api/v1/me")).json());
assert.deepEqual([eve.user.name, eve.user.is_admin], ["admin-2", false]);
await other.context.close();

// Who says no at the issuer reads why, once.
const cancelled = await begin();
await cancelled.page.getByRole("link", { name: "Cancel" }).click();
await cancelled.page.getByRole("alert").getByText("Example refused: End-User aborted interaction").waitFor();
assert.equal(cancelled.page.url(), `${url}/`);
if (process.env.PROWESS_PICTURES) await cancelled.page.screenshot({ path: `${process.env.PROWESS_PICTURES}/oidc-refused.png` });
await cancelled.page.reload();
await cancelled.page.getByRole("link", { name: "Sign in with Example" }).waitFor();
assert.equal(await cancelled.page.getByText("Example refused").count(), 0);
if (process.env.PROWESS_PICTURES) await cancelled.page.screenshot({ path: `${process.env.PROWESS_PICTURES}/oidc-sign-in.png` });

await browser.close();
console.log("oidc-provider: people sign in, stay themselves, and read why they do not come in");
