// The tests of the page, in the order in which they run. Each gets a browser, and makes threads of its own.
import assert from "node:assert/strict";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  answer, api, begin, DATA, field, idle, isAccessible, isUnharmed, LOGIN, panel, profile, question, send, signIn, stop, TOKEN, URL_,
} from "./browser.js";
import { tar } from "./archive.js";
import {
  ANYTHING, ATTACK, FAILS, FAILS_CODE, FAILS_ERROR, HELLO, HELLO_HEADING, HOSTILE, HOSTILE_NAME, REPEAT, REVERSES, SLOW, SLOW_END,
  SLOW_WORD, TOOL_DONE, TOOL_REFUSED, USE_TOOL, WATCH, WATCHED_LINE, WORK, WORK_DONE,
} from "./script.js";

const within = (text) => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
const times = (text, part) => text.split(part).length - 1;

/** The slow response must be whole, with each word once. */
async function isWhole(page) {
  await answer(page).getByText(within(SLOW_END)).waitFor({ timeout: 60_000 });
  await idle(page);
  const text = await answer(page).innerText();
  for (const word of ["word 1 ", "word 2 ", "word 5 ", "word 20 ", SLOW_END]) {
    assert.equal(times(`${text} `, word), 1, `\`${word}\` in ${text}`);
  }
}

async function isSpeaking(page) {
  await page.locator("[data-live]").getByText(within(SLOW_WORD)).waitFor();
}

/** A text as the page shows it. */
const printed = (text) => text.replaceAll(REVERSES, "\\u{202e}");

/** No text of others became a part of the page, ran, or turned the text around it. */
async function isHarmless(page) {
  await isUnharmed(page);
  const found = await page.evaluate((reverses) => ({
    elements: [...document.querySelectorAll("body script, link[href*='attacker'], [onerror], [onload], [srcdoc], [style*='attacker']")]
      .map((element) => element.outerHTML),
    // A preview is a frame of the page's own making, and an image of it has the address of a blob.
    foreign: [...document.querySelectorAll("img, iframe, object, embed")]
      .filter(({ src, data }) => !/^blob:/.test(src ?? data)).map((element) => element.outerHTML),
    links: [...document.querySelectorAll("a[href]")].map((link) => link.href).filter((href) => !/^https?:|^mailto:/.test(href)),
    reverses: document.body.innerText.includes(reverses),
  }), REVERSES);
  assert.deepEqual(found, { elements: [], foreign: [], links: [], reverses: false });
}

export const tests = {
  async "log in"({ context }) {
    const page = await context.newPage();
    await page.goto(URL_);
    await page.getByLabel("Token").fill("prowess_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("does not know this token").waitFor();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "New thread" }).waitFor();
    const [cookie] = await context.cookies();
    assert.match(cookie.name, /^prowess_session_[0-9]+$/);
    assert.equal(cookie.httpOnly, true);
    assert.equal(cookie.sameSite, "Strict");
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.doesNotMatch(page.url(), /prowess_/);
    await page.getByRole("button", { name: "Account" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    await page.getByText("You signed out.").waitFor();
    await page.goto(URL_);
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assert.equal(await page.getByText("You signed out.").count(), 0);
  },

  async "log in by a one-time link, once"({ context, browser, skip }) {
    if (!LOGIN) return skip("PROWESS_LOGIN is not set");
    const page = await context.newPage();
    // Opening the link does not use it up.
    for (let time = 0; time < 2; time += 1) {
      await page.goto(LOGIN);
      await page.getByText("Sign in to prowess as admin?").waitFor();
    }
    await isAccessible(page, "login link");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "New thread" }).waitFor();
    assert.equal(new URL(page.url()).pathname, "/");
    const other = await profile(browser);
    const again = await other.context.newPage();
    await again.goto(LOGIN);
    await again.getByRole("button", { name: "Sign in" }).waitFor();
    await again.getByText("This link was used before").waitFor();
    await again.goto(URL_);
    await again.getByRole("button", { name: "Sign in" }).waitFor();
    await other.context.close();
  },

  async "converse"({ page }) {
    await begin(page, HELLO);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await idle(page);
    const link = answer(page).getByRole("link").first();
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
    // A text for screen readers comes after a pause.
    await page.getByTestId("announcer").filter({ hasText: HELLO_HEADING }).waitFor({ state: "attached" });
    await send(page, ANYTHING);
    await page.getByRole("article", { name: "You" }).nth(1).waitFor();
    await idle(page);
    assert.equal(await page.getByRole("article", { name: "You" }).count(), 2);
  },

  async "a page over plain HTTP, and an answer that is lost"({ page, context }) {
    // What a browser has only for pages over TLS and of this machine.
    await context.addInitScript(() => delete Crypto.prototype.randomUUID);
    await page.reload();
    assert.equal(await page.evaluate(() => typeof crypto.randomUUID), "undefined");
    await begin(page, HELLO);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await idle(page);
    const said = page.getByRole("article", { name: "You" });
    const ids = [];
    // One request is lost on its way, and the next one's answer.
    await page.route("**/turns", async (route) => {
      ids.push(route.request().postDataJSON().id);
      if (ids.length === 2) await route.fetch();
      if (ids.length <= 2) await route.abort();
      else await route.continue();
    });
    await send(page, ANYTHING);
    await page.locator(".toast.error").first().waitFor();
    assert.equal(await field(page).inputValue(), ANYTHING);
    await field(page).press("Enter");
    await said.nth(1).waitFor();
    await idle(page);
    assert.equal(ids.length, 2);
    assert.equal(ids[0], ids[1]);
    // The message arrived, so it does not wait in the field.
    await page.waitForFunction(() => document.querySelector("[data-composer]").value === "");
    // The same text is another message now.
    await send(page, ANYTHING);
    await said.nth(2).waitFor();
    assert.notEqual(ids[2], ids[1]);
    await idle(page);
  },

  async "a first message that is refused leaves nothing"({ page }) {
    const threads = () => page.evaluate(async () => (await (await fetch("/api/v1/threads?limit=200")).json()).items.map(({ id }) => id));
    const before = await threads();
    let refuses = true;
    await page.route("**/turns", (route) => refuses
      ? route.fulfill({ status: 429, json: { error: { code: "too_many", message: "You have reached your limit." } } })
      : route.continue());
    await page.getByLabel("Upload files to /project").setInputFiles([
      { name: "log.txt", mimeType: "text/plain", buffer: Buffer.from("a log") },
      { name: "other.txt", mimeType: "text/plain", buffer: Buffer.from("another") },
    ]);
    await page.getByRole("button", { name: "Leave out other.txt" }).click();
    await isAccessible(page, "start with a file");
    await send(page, HELLO);
    await page.locator(".toast.error").getByText("You have reached your limit.").waitFor();
    await page.waitForFunction((text) => document.querySelector("[data-composer]").value === text, HELLO);
    await page.getByRole("heading", { name: "New thread" }).waitFor();
    assert.deepEqual(await threads(), before);
    // The file and the text wait for the next attempt.
    refuses = false;
    await field(page).press("Enter");
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await idle(page);
    await panel(page, "Files");
    await page.getByRole("tabpanel").getByRole("button", { name: "log.txt", exact: true }).waitFor();
    assert.equal(await page.getByRole("tabpanel").getByRole("button", { name: "other.txt", exact: true }).count(), 0);
  },

  async "skills are suggested by parts of their names"({ page }) {
    const names = async () => (await page.getByRole("option").allInnerTexts()).map((text) => text.split("\n")[0]);
    await field(page).fill("/t");
    await page.getByRole("option", { name: "/tides" }).waitFor();
    assert.equal((await names())[0], "/tides");
    await field(page).fill("/art");
    await page.getByRole("option", { name: "/charts" }).waitFor();
    // What only its description has comes without being chosen: Enter sends what was typed.
    await field(page).fill("/harbour");
    await page.getByRole("option", { name: "/tides", selected: false }).waitFor();
    await page.locator("[role=option][aria-selected=true]").waitFor({ state: "detached" });
    await field(page).fill("/tid");
    await page.getByRole("option", { name: "/tides", selected: true }).waitFor();
    await field(page).press("Enter");
    assert.equal(await field(page).inputValue(), "/tides ");
  },

  async "start a skill"({ page }) {
    await begin(page, HELLO);
    await idle(page);
    await panel(page, "Skills");
    const tab = page.getByRole("tabpanel");
    await tab.getByLabel("Search skills").fill("ide");
    await tab.getByRole("button", { name: "charts", exact: true }).waitFor({ state: "detached" });
    await tab.getByRole("button", { name: "Start tides" }).click();
    await tab.getByRole("button", { name: "Unload tides" }).first().waitFor();
    await idle(page);
    const added = page.getByRole("article", { name: "Added by the agent" });
    await added.getByText("Loaded tides").waitFor();
    assert.equal(await added.getByText("scripts/tides.sh").isVisible(), false);
    await added.locator("summary").click();
    await added.getByText("scripts/tides.sh").first().waitFor();
    await page.getByRole("article", { name: "You" }).last().getByText("/tides", { exact: true }).waitFor();
  },

  async "the conversation is read once"({ page }) {
    const reads = [];
    page.on("request", (request) => {
      const { pathname, search } = new URL(request.url());
      if (request.method() === "GET" && /^\/api\/v1\/threads\/[^/]+$/.test(pathname)) reads.push(search);
    });
    await begin(page, HELLO);
    await idle(page);
    await send(page, ANYTHING);
    await page.getByRole("article", { name: "You" }).nth(1).waitFor();
    await idle(page);
    await page.locator(".topbar h1", { hasText: HELLO }).waitFor();
    assert.ok(reads.length > 0);
    assert.deepEqual(reads.filter((search) => search !== "?messages=false"), []);
  },

  async "messages that wait are shown after a reload, and in another tab"({ page, context }) {
    await begin(page, SLOW);
    await isSpeaking(page);
    const other = await context.newPage();
    await other.goto(page.url());
    await isSpeaking(other);
    await send(page, HELLO);
    const waits = (tab) => tab.locator(".unlogged").getByText(HELLO);
    await waits(page).waitFor();
    await waits(other).waitFor();
    await page.reload();
    await waits(page).waitFor();
    for (const tab of [page, other]) {
      await answer(tab).getByRole("heading", { name: HELLO_HEADING }).waitFor({ timeout: 60_000 });
      await waits(tab).waitFor({ state: "detached" });
      assert.equal(await tab.getByRole("article", { name: "You" }).count(), 2);
    }
  },

  async "a command that fails"({ page }) {
    await page.setViewportSize({ width: 390, height: 844 });
    await begin(page, FAILS);
    await question(page).waitFor();
    // The title has two lines, and the replies are in reach.
    const title = question(page).locator(".question-title > span");
    const lines = await title.evaluate((title) => title.clientHeight / parseFloat(getComputedStyle(title).lineHeight));
    assert.ok(lines < 2.5, `the title has ${lines} lines`);
    assert.doesNotMatch(await question(page).innerText(), /\\u\{20/);
    assert.equal(await field(page).getAttribute("placeholder"), "Reply to the question above, or send a message");
    await question(page).getByText("“Always” would allow").click();
    await question(page).getByText(FAILS_ERROR).last().waitFor();
    assert.equal(await question(page).getByRole("button", { name: "Edit…" }).count(), 1);
    const isInView = async (element) => page.waitForFunction((element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return bottom > top && bottom <= document.querySelector(".bottom").getBoundingClientRect().top;
    }, await element.elementHandle());
    await question(page).getByRole("button", { name: "No, with a reason" }).click();
    await isInView(page.getByLabel("Reason, for the model"));
    await isAccessible(page, "question with a long command");
    await question(page).getByRole("button", { name: "Once" }).click();
    await answer(page).getByText("It failed.").waitFor();
    await idle(page);
    const head = page.locator(".tool-head").first();
    await head.getByText(`exit code ${FAILS_CODE}`).waitFor();
    assert.match(await head.innerText(), /Failed/);
    await head.click();
    const card = page.locator(".tool").first();
    await card.getByText("sum:  42", { exact: true }).waitFor();
    await card.locator(".code.error").getByText(FAILS_ERROR).waitFor();
    await isAccessible(page, "failed run");
    await card.getByRole("button", { name: "out/log.txt, version 0" }).click();
    await page.getByRole("dialog").getByText("x", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
  },

  async "numbers in tables stay whole"({ page }) {
    await page.setViewportSize({ width: 390, height: 844 });
    const row = (cells) => `| ${cells.join(" | ")} |`;
    const columns = ["Pressure", "Before noon", "After noon", "At night", "Temperature", "Wind in knots", "Remarks"];
    const table = [row(columns), row(columns.map(() => "---")), row(["120/080", "1,013.25", "1,009.75", "998/1002", "-12.5", "14/22", "fair"])];
    await begin(page, `${REPEAT}\n${table.join("\n")}\n`);
    const box = answer(page).getByRole("group", { name: "Table" });
    await box.waitFor();
    await idle(page);
    const broken = await box.locator("td").evaluateAll((cells) => cells.filter((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length !== 1;
    }).map((cell) => cell.textContent));
    assert.deepEqual(broken, []);
    assert.ok(await box.evaluate((box) => box.scrollWidth > box.clientWidth), "the table scrolls in its box");
    await isAccessible(page, "a wide table");
  },

  async "a dead letter"({ page, skip }) {
    if (!DATA) return skip("PROWESS_DATA is not set");
    const broken = async () => {
      await begin(page, HELLO);
      await idle(page);
      const thread = decodeURIComponent(page.url().split("/thread/")[1]);
      const directory = join(DATA, "projects", thread);
      // No worker can open a thread with a file in the place of its directory.
      renameSync(directory, `${directory}.aside`);
      writeFileSync(directory, "");
      await send(page, ANYTHING);
      for (;;) {
        const { items } = await api("GET", "/queue?limit=200");
        const { state } = items.find((item) => item.thread === thread) ?? {};
        if (state === "dead") break;
        // A message ends the wait for the next attempt.
        if (state === "waiting") await api("POST", `/threads/${thread}/turns`, { text: ANYTHING, mode: "queue" });
        await page.waitForTimeout(50);
      }
      await page.getByText("The turn waits for an administrator.").waitFor();
      await page.locator(".topbar").getByText("needs an admin").waitFor();
      const mend = () => {
        rmSync(directory);
        renameSync(`${directory}.aside`, directory);
      };
      return { thread, mend, row: page.getByRole("row", { name: thread }) };
    };
    const retried = await broken();
    await isAccessible(page, "a dead letter");
    await page.goto(`${URL_}/#/settings/queue`);
    await retried.row.getByText("File exists").waitFor();
    await isAccessible(page, "the queue");
    retried.mend();
    await retried.row.getByRole("button", { name: /^Retry/ }).click();
    await retried.row.waitFor({ state: "detached" });
    await page.goto(`${URL_}/#/thread/${retried.thread}`);
    await idle(page);

    const dropped = await broken();
    await page.goto(`${URL_}/#/settings/queue`);
    dropped.mend();
    await dropped.row.getByRole("button", { name: /^Drop/ }).click();
    const dialog = page.getByRole("dialog");
    await isAccessible(page, "dropping");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dropped.row.getByText("dead").waitFor();
    await dropped.row.getByRole("button", { name: /^Drop/ }).click();
    await dialog.getByRole("button", { name: "Drop", exact: true }).click();
    await dropped.row.waitFor({ state: "detached" });
    await page.goto(`${URL_}/#/thread/${dropped.thread}`);
    await idle(page);

    // Its user can go on without an administrator.
    const cancelled = await broken();
    cancelled.mend();
    await stop(page).click();
    await idle(page);
  },

  async "set up a user"({ page }) {
    const name = `Bo <b>${Date.now()}</b>`;
    await page.goto(`${URL_}/#/settings/users`);
    await page.getByLabel("Name").fill(name);
    await page.getByRole("button", { name: "Create" }).click();
    const secret = page.locator(".secret");
    await secret.getByText("/login/").waitFor();
    const row = page.getByRole("row", { name });
    await row.getByText("the server’s").waitFor();
    await row.getByRole("button", { name: `Limits of ${name}` }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Tokens in a day").fill("many");
    await dialog.getByText("digits only").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Save" }).isDisabled(), true);
    await dialog.getByLabel("Tokens in a day").fill("2000000");
    await dialog.getByLabel("Cost in a day, in dollars").fill("2.50");
    await isAccessible(page, "limits");
    const save = async (daily) => {
      const request = page.waitForRequest((request) => request.method() === "PATCH");
      await dialog.getByRole("button", { name: "Save" }).click();
      assert.deepEqual((await request).postDataJSON(), { daily });
      await dialog.waitFor({ state: "detached" });
    };
    await save({ tokens: 2000000, cost: "2.50" });
    await row.getByText("2M tokens, $2.5").waitFor();
    await row.getByRole("button", { name: `Limits of ${name}` }).click();
    await dialog.getByLabel("Tokens in a day").fill("");
    await save({ tokens: null, cost: "2.50" });
    await row.getByText("2M tokens").waitFor({ state: "detached" });
    await row.getByText("$2.5").waitFor();
    await row.getByRole("button", { name: `Disable ${name}` }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await row.getByText("active").waitFor();
    await row.getByRole("button", { name: `Disable ${name}` }).click();
    await dialog.getByRole("button", { name: "Disable", exact: true }).click();
    await row.getByText("disabled").waitFor();
    // A link that does not work is not shown.
    await secret.waitFor({ state: "detached" });
    await row.getByRole("button", { name: `Enable ${name}` }).click();
    await row.getByText("active").waitFor();
    // On a phone, each user is a card.
    await page.setViewportSize({ width: 390, height: 844 });
    await isAccessible(page, "users as cards");
  },

  async "a conversation from beginning to end"({ page }) {
    await begin(page, WORK);
    // The agent plans, loads a skill, and asks before it runs the skill and before it writes the file.
    await question(page).getByText("sh scripts/tides.sh").first().waitFor();
    await page.getByText("Loaded tides").waitFor();
    // What the model said before its call is there once.
    await page.waitForTimeout(500);
    assert.equal(await page.getByText("Now I run the skill").count(), 1);
    await question(page).getByRole("button", { name: "Once" }).click();
    await page.locator("[data-state=running]").waitFor();
    await question(page).getByText("plan.md").first().waitFor();
    await question(page).getByText("A boat trip").first().waitFor();
    await question(page).getByRole("button", { name: "Once" }).click();
    await answer(page).getByText(within(WORK_DONE)).waitFor();
    await idle(page);
    await answer(page).getByRole("cell", { name: "sail" }).waitFor();
    await page.getByText("Plan: 2 of 3 done").waitFor();
    assert.equal(await page.locator("[data-state=failed]").count(), 1);
    const tab = page.getByRole("tabpanel");
    await panel(page, "Skills");
    await tab.getByRole("button", { name: "Unload tides" }).first().waitFor();
    await panel(page, "Context");
    await tab.getByText("Loaded skills").waitFor();
    await tab.getByText("of 32k tokens").waitFor();
    await panel(page, "Artifacts");
    await tab.getByRole("button", { name: /^Preview .*tides\.csv/ }).click();
    await page.getByRole("dialog").getByRole("cell", { name: "12:20" }).waitFor();
    await page.keyboard.press("Escape");
    await panel(page, "Usage");
    await tab.getByText(/tokens · \$0\.0/).waitFor();
    await panel(page, "Files");
    await tab.getByRole("button", { name: "plan.md", exact: true }).click();
    await page.getByRole("dialog").getByRole("heading", { name: "A boat trip" }).waitFor();
    await page.keyboard.press("Escape");
    await panel(page, "Skills");
    await tab.getByRole("button", { name: "Unload tides" }).first().click();
    await tab.getByText("No skill is loaded.").waitFor();
  },

  async "approve once"({ page }) {
    await begin(page, USE_TOOL);
    await question(page).waitFor();
    await page.getByRole("button", { name: /1 open question/ }).click();
    assert.ok(await question(page).evaluate((card) => card === document.activeElement));
    await question(page).getByRole("button", { name: "Once" }).click();
    await answer(page).getByText(within(TOOL_DONE)).waitFor();
    await idle(page);
    assert.equal(await question(page).count(), 0);
    await page.getByText("Reply: yes, once").waitFor();
    assert.equal(await page.locator("[data-state=done]").count(), 1);
    // "Once" was once.
    await send(page, USE_TOOL);
    await question(page).waitFor();
    await question(page).getByRole("button", { name: "No", exact: true }).click();
    await idle(page);
  },

  async "refuse with a reason"({ page }) {
    await begin(page, USE_TOOL);
    await question(page).getByRole("button", { name: "No, with a reason" }).click();
    await page.getByLabel("Reason, for the model").fill("use the other one");
    await page.keyboard.press("Enter");
    await answer(page).getByText(within(TOOL_REFUSED)).waitFor();
    await idle(page);
    await page.getByText("Reply: no — use the other one").waitFor();
    await page.locator("[data-state=refused]").waitFor();
  },

  async "cancel"({ page }) {
    await begin(page, SLOW);
    await isSpeaking(page);
    await stop(page).click();
    await page.locator("[data-outcome=cancelled]").waitFor();
    await stop(page).waitFor({ state: "detached" });
    assert.equal(await page.locator("[data-live]").count(), 0);
    // What was said so far stays.
    await page.getByRole("article", { name: "Agent, stopped" }).getByText(within(SLOW_WORD)).waitFor();
    await send(page, HELLO);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
  },

  async "output of a command while it runs"({ page }) {
    await begin(page, WATCH);
    await question(page).getByRole("button", { name: "Once" }).click();
    const output = page.getByRole("group", { name: "Output so far" });
    await output.getByText(within(WATCHED_LINE)).waitFor();
    await isHarmless(page);
    // Somebody who comes later sees it too.
    await page.reload();
    await output.getByText(within(WATCHED_LINE)).waitFor();
    assert.equal(times(await output.innerText(), WATCHED_LINE), 1);
    await stop(page).click();
    await page.locator("[data-outcome=cancelled]").waitFor();
    assert.equal(await output.count(), 0);
  },

  async "cancel while a question is open"({ page }) {
    await begin(page, USE_TOOL);
    await question(page).waitFor();
    await stop(page).click();
    await page.locator("[data-outcome=cancelled]").waitFor();
    assert.equal(await question(page).count(), 0);
  },

  async "send while a turn is under way: queue, then interrupt"({ page }) {
    await begin(page, SLOW);
    await isSpeaking(page);
    await send(page, HELLO);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor({ timeout: 60_000 });
    await page.getByText(within(SLOW_END)).waitFor();
    await idle(page);
    await send(page, SLOW);
    await isSpeaking(page);
    await page.getByText("Interrupt", { exact: true }).click();
    await send(page, HELLO);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await idle(page);
  },

  async "upload and preview"({ page }) {
    await begin(page, HELLO);
    await idle(page);
    await panel(page, "Files");
    const file = (name, type, text) => ({ name, mimeType: type, buffer: Buffer.from(text) });
    await page.getByRole("tabpanel").getByLabel("Upload files").setInputFiles([
      file("table.csv", "text/csv", 'region,revenue\n"EMEA, all",12\n'),
      file("page.html", "text/html", `<h1>A heading</h1><script>parent.__pwned = 1; window.__pwned = 1</script><iframe src="http://exfil.example/"></iframe>
        <object data="http://exfil.example/"></object><link rel="preconnect" href="http://exfil.example/"><svg><iframe src="http://exfil.example/"></iframe></svg>
        <template><iframe src="http://exfil.example/"></iframe></template>`),
      file("notes.md", "text/markdown", `# Notes\n\n${HOSTILE}`),
      file("drawing.svg", "image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg"><script>parent.__pwned = 1</script><rect width="9" height="9"/></svg>'),
      file("<img src=x onerror=window.__pwned=1>.txt", "text/plain", "plain"),
    ]);
    const open = async (name) => {
      await page.getByRole("tabpanel").getByRole("button", { name, exact: true }).click();
      return page.getByRole("dialog");
    };
    const close = () => page.keyboard.press("Escape");
    const dropped = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(["x"], "dropped.txt"));
      return data;
    });
    await page.dispatchEvent("#main", "drop", { dataTransfer: dropped });
    await page.getByRole("tabpanel").getByRole("button", { name: "dropped.txt", exact: true }).waitFor();
    let shown = await open("table.csv");
    await shown.getByRole("cell", { name: "EMEA, all" }).waitFor();
    await isAccessible(page, "preview of a table");
    await close();
    shown = await open("page.html");
    const frame = shown.locator("iframe");
    assert.equal(await frame.getAttribute("sandbox"), "");
    await frame.contentFrame().getByRole("heading", { name: "A heading" }).waitFor();
    // A browser would connect before the policy forbids the request.
    assert.equal(await frame.contentFrame().locator("iframe, object, link").count(), 0);
    await isUnharmed(page);
    await close();
    shown = await open("notes.md");
    await shown.getByRole("heading", { name: "Notes", exact: true }).waitFor();
    await close();
    shown = await open("drawing.svg");
    assert.equal(await shown.locator("iframe").count(), 0);
    await page.waitForFunction(() => document.querySelector("img.preview-image")?.naturalWidth > 0);
    await close();
    shown = await open("<img src=x onerror=window.__pwned=1>.txt");
    await shown.getByText("plain").waitFor();
    await close();
    await isUnharmed(page);
    await page.getByRole("button", { name: "Actions for table.csv" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("tabpanel").getByRole("button", { name: "table.csv", exact: true }).waitFor({ state: "detached" });
  },

  async "reload in the middle of a turn"({ page }) {
    await begin(page, SLOW);
    await isSpeaking(page);
    await page.reload();
    await isSpeaking(page);
    await isWhole(page);
    assert.equal(await page.getByRole("article", { name: "You" }).count(), 1);
  },

  async "lose and regain the network"({ page, context }) {
    await begin(page, SLOW);
    await isSpeaking(page);
    await context.setOffline(true);
    await page.getByText("You are offline").waitFor();
    await page.waitForTimeout(2000);
    await context.setOffline(false);
    await page.getByText("You are offline").waitFor({ state: "detached" });
    await isWhole(page);
    assert.equal(await page.getByRole("article", { name: "You" }).count(), 1);
  },

  async "two tabs, and an answer elsewhere"({ page, context }) {
    await begin(page, HELLO);
    await idle(page);
    const other = await context.newPage();
    await other.goto(page.url());
    await answer(other).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await send(other, USE_TOOL);
    await question(page).waitFor();
    await question(other).waitFor();
    await question(page).getByRole("button", { name: "Once" }).click();
    await question(other).waitFor({ state: "detached" });
    await other.locator(".notices").getByText("was answered elsewhere").waitFor();
    assert.equal(await page.getByText("was answered elsewhere").count(), 0);
    for (const tab of [page, other]) {
      await answer(tab).getByText(within(TOOL_DONE)).waitFor();
      await idle(tab);
      assert.equal(await tab.locator(".toast.error").count(), 0);
      assert.equal(await tab.getByRole("article", { name: "You" }).count(), 2);
    }
    // A question of another thread is listed there.
    await begin(other, USE_TOOL);
    await question(other).waitFor();
    const listed = page.locator(`.open-questions a[href="${new URL(other.url()).hash}"]`);
    await listed.waitFor();
    await question(other).getByRole("button", { name: "No", exact: true }).click();
    await listed.waitFor({ state: "detached" });
  },

  async "a late reply is no error"({ page, context }) {
    await begin(page, USE_TOOL);
    await question(page).waitFor();
    const [thread] = page.url().split("/").slice(-1);
    // This tab does not hear of the reply, and then sends its own.
    await context.route(/\/events/, (route) => route.abort());
    await page.reload();
    await question(page).waitFor();
    const replied = await page.evaluate(async (thread) => {
      const { questions } = await (await fetch(`/api/v1/threads/${thread}`)).json();
      const response = await fetch(`/api/v1/threads/${thread}/questions/${questions[0].number}`, {
        method: "POST", headers: { "Content-Type": "application/json", "X-Prowess": "1" }, body: '{"reply":"reject"}',
      });
      return response.status;
    }, thread);
    assert.equal(replied, 202);
    await question(page).getByRole("button", { name: "Once" }).click();
    await page.locator(".notices").getByText("was answered elsewhere").waitFor();
    assert.equal(await page.locator(".toast.error").count(), 0);
  },

  async "case 137: texts of others run nothing, and send nothing"({ page }) {
    // The texts of a model, in every place that it can fill.
    await begin(page, ATTACK);
    let last = null;
    for (let asked = 0; asked < 3; asked += 1) {
      const title = question(page).locator(".question-title");
      await title.waitFor();
      while ((await title.innerText()) === last) await page.waitForTimeout(50);
      last = await title.innerText();
      await question(page).locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
      await isHarmless(page);
      await question(page).getByRole("button", { name: "Once", exact: true }).click();
    }
    await idle(page);
    await page.locator(".tool-head[aria-expanded=false]").evaluateAll((all) => all.forEach((head) => head.click()));
    await page.locator("#main details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    await page.waitForTimeout(300);
    assert.match(await answer(page).innerText(), /<script>window\.__pwned=1<\/script>/);
    assert.equal(await answer(page).getByText("click", { exact: true }).getAttribute("href"), null);
    await isHarmless(page);
    // Titles, and the texts of a person.
    await page.locator(".topbar").getByRole("button", { name: /^Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await page.getByLabel("Title").fill(HOSTILE.slice(0, 390));
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "<script>" }).waitFor();
    await send(page, REPEAT + HOSTILE);
    await idle(page);
    await isHarmless(page);
    // Skills of strangers: their names, descriptions, licences, tools, texts and files.
    await panel(page, "Skills");
    await page.getByRole("button", { name: "stranger", exact: true }).click();
    await page.getByRole("dialog").getByRole("heading", { name: "Instructions" }).waitFor();
    await page.getByRole("dialog").locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    await isHarmless(page);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Start stranger" }).click();
    await page.getByRole("button", { name: "Unload stranger" }).first().waitFor();
    await idle(page);
    await page.locator("#main details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    await isHarmless(page);
    for (const tab of ["Context", "Artifacts", "Usage", "Files"]) {
      await panel(page, tab);
      await page.getByRole("tabpanel").locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
      await page.waitForTimeout(300);
      await isHarmless(page);
    }
    // A skill that somebody made the user upload.
    const hostile = `---\nname: uploaded-stranger\ndescription: ${JSON.stringify(HOSTILE)}\nlicense: ${JSON.stringify(HOSTILE)}\nallowed-tools: ${JSON.stringify(HOSTILE)}\ncompatibility: ${JSON.stringify(HOSTILE)}\nhooks:\n  Stop:\n    - hooks:\n        - type: command\n          command: ${JSON.stringify(HOSTILE)}\n---\n\n${HOSTILE}\n`;
    const file = HOSTILE_NAME.replace(REVERSES, "");
    await panel(page, "Skills");
    await page.getByLabel("Add a skill").setInputFiles({ name: HOSTILE_NAME, mimeType: "application/x-tar", buffer: tar({ "SKILL.md": hostile, [file]: HOSTILE }) });
    await page.getByRole("dialog").getByRole("heading", { name: "Instructions" }).waitFor();
    await page.getByRole("dialog").locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    await isHarmless(page);
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).last().click();
    await page.getByRole("dialog").first().waitFor({ state: "detached" });
    await panel(page, "Files");
    // Files that the model wrote.
    for (const name of ["page.html", printed(HOSTILE_NAME)]) {
      await page.getByRole("tabpanel").getByRole("button", { name, exact: true }).click();
      await page.getByRole("dialog").locator(".preview > :not([role=status])").first().waitFor();
      await page.waitForTimeout(500);
      await isHarmless(page);
      await page.keyboard.press("Escape");
    }
    // What others read of it later: the list of threads, its search, and the audit log.
    await page.getByLabel("Search threads").fill("__pwned");
    await page.locator(".thread.current").waitFor();
    await isHarmless(page);
    await page.goto(`${URL_}/#/settings/audit`);
    await page.getByRole("cell", { name: "reply" }).first().waitFor();
    await isHarmless(page);
  },

  async "threads: rename, search, fork, export, delete"({ page }) {
    const title = `A title <b>${Date.now()}</b>`;
    await begin(page, HELLO);
    await idle(page);
    const menu = () => page.locator(".topbar").getByRole("button", { name: /^Actions for/ });
    await menu().click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await page.getByLabel("Title").fill(title);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: title, level: 1 }).waitFor();
    await page.getByLabel("Search threads").fill(title);
    await page.getByRole("navigation").getByText("No thread matches").waitFor({ state: "detached" });
    await page.locator(".thread.current").waitFor();
    await menu().click();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: "Export as Markdown" }).click();
    await download;
    const before = page.url();
    await page.getByRole("button", { name: "Fork the thread here" }).last().click();
    await page.waitForFunction((before) => location.href !== before, before);
    await answer(page).getByRole("heading", { name: HELLO_HEADING }).waitFor();
    await menu().click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "New thread" }).waitFor();
  },

  async "a skill of one's own"({ page }) {
    await begin(page, HELLO);
    await idle(page);
    await panel(page, "Skills");
    const tab = page.getByRole("tabpanel");
    const manifest = "---\nname: knots\ndescription: Ties knots of sailors.\n---\n\n# Knots\n\nRun scripts/tie.sh.\n";
    const add = (files) => page.getByLabel("Add a skill").setInputFiles({ name: "knots.tar", mimeType: "application/x-tar", buffer: tar(files) });
    const dialog = page.getByRole("dialog");
    await add({ "SKILL.md": manifest, "scripts/tie.sh": "echo bowline\n" });
    await dialog.getByText("scripts/tie.sh", { exact: true }).waitFor();
    await dialog.getByText("not trusted").waitFor();
    await isAccessible(page, "own skill");
    await page.keyboard.press("Escape");
    await tab.getByText("not trusted").waitFor();
    assert.equal(await tab.getByRole("button", { name: "Start knots" }).count(), 0);
    // With the keyboard.
    await tab.getByRole("button", { name: "Review knots" }).focus();
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: "Trust", exact: true }).focus();
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: "Do not trust" }).waitFor();
    await page.keyboard.press("Escape");
    await tab.getByRole("button", { name: "Start knots" }).click();
    await tab.getByRole("button", { name: "Unload knots" }).first().waitFor();
    await idle(page);
    // A refusal is said, and a name of the server cannot be taken.
    await add({ "SKILL.md": manifest.replace("knots", "tides") });
    await page.getByText("This server has a skill").first().waitFor();
    await add({ "README.md": "x" });
    await page.getByText("has no skill that can be used").first().waitFor();
    await isAccessible(page, "own skills");
    await tab.getByRole("list", { name: "Your skills" }).getByRole("button", { name: "knots", exact: true }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.getByRole("button", { name: "Remove" }).last().click();
    await dialog.first().waitFor({ state: "detached" });
    await tab.getByText("Only you have these skills.").waitFor();
  },

  async "keyboard alone"({ page }) {
    await page.goto(`${URL_}/#/`);
    await field(page).waitFor();
    await page.waitForTimeout(200);
    assert.ok(await field(page).evaluate((field) => field === document.activeElement), "the message field has the focus");
    await page.keyboard.type(USE_TOOL);
    await page.keyboard.press("Enter");
    await question(page).waitFor();
    const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim());
    for (let n = 0; n < 60 && (await focused()) !== "Once"; n += 1) await page.keyboard.press("Shift+Tab");
    assert.equal(await focused(), "Once");
    await page.keyboard.press("Space");
    await answer(page).getByText(within(TOOL_DONE)).waitFor();
    assert.ok(await field(page).evaluate((field) => field === document.activeElement), "the focus returns to the message field");
  },

  async "every view without violations, light and dark, wide and on a phone"({ browser }) {
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [1360, 390]) {
        const { context, problems } = await profile(browser, { colorScheme, viewport: { width, height: 844 } });
        const name = (view) => `${view}, ${colorScheme}, ${width}`;
        const first = await context.newPage();
        await first.goto(URL_);
        await first.getByLabel("Token").waitFor();
        await isAccessible(first, name("sign in"));
        await first.close();
        const page = await signIn(context);
        await isAccessible(page, name("start"));
        await begin(page, HELLO);
        await idle(page);
        await isAccessible(page, name("conversation"));
        await send(page, USE_TOOL);
        await question(page).waitFor();
        await isAccessible(page, name("question"));
        await question(page).getByRole("button", { name: "Once" }).click();
        await answer(page).getByText(within(TOOL_DONE)).waitFor();
        await idle(page);
        await page.locator("[data-state=done] > button").last().click();
        await isAccessible(page, name("tool call"));
        for (const tab of ["Skills", "Context", "Files", "Artifacts", "Usage"]) {
          await panel(page, tab);
          await page.waitForTimeout(300);
          await isAccessible(page, name(tab));
        }
        if (width < 700) {
          await page.keyboard.press("Escape");
          await page.getByRole("button", { name: "Threads" }).click();
          await page.getByRole("dialog").getByLabel("Search threads").waitFor();
          await isAccessible(page, name("drawer"));
        }
        for (const view of ["tokens", "users", "skills", "queue", "audit"]) {
          await page.goto(`${URL_}/#/settings/${view}`);
          await page.locator(".settings").waitFor();
          await isAccessible(page, name(view));
        }
        assert.deepEqual(problems, []);
        await context.close();
      }
    }
  },
};
