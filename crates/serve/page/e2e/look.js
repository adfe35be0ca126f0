// Takes a picture of every view, light and dark, wide and on a phone, for a person to look at: node e2e/look.js
// The pictures are in PROWESS_PICTURES. The other variables are those of run.js.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { answer, begin, idle, launch, LOGIN, panel, profile, question, send, signIn, URL_ } from "./browser.js";
import { tar } from "./archive.js";
import { ATTACK, FAILS, HELLO, REPEAT, SLOW, USE_TOOL, WORK, WORK_DONE } from "./script.js";

const directory = process.env.PROWESS_PICTURES;
mkdirSync(directory, { recursive: true });
const browser = await launch();
for (const [name, colorScheme, width] of [["light", "light", 1280], ["dark", "dark", 1280], ["phone", "light", 390], ["phone-dark", "dark", 390]]) {
  const { context, problems } = await profile(browser, { colorScheme, viewport: { width, height: 850 } });
  const isPhone = width < 700;
  const look = async (page, view) => {
    await page.waitForTimeout(400);
    await page.screenshot({ path: join(directory, `${view}-${name}.png`) });
  };
  const first = await context.newPage();
  if (LOGIN) {
    await first.goto(LOGIN);
    await first.getByRole("button", { name: "Sign in" }).waitFor();
    await look(first, "login-link");
  }
  await first.goto(`${URL_}/?login=used`);
  await first.getByLabel("Token").waitFor();
  await look(first, "sign-in");
  await first.close();
  const page = await signIn(context);
  await look(page, "start");
  const once = () => question(page).getByRole("button", { name: "Once" }).click();
  await begin(page, WORK);
  await question(page).getByText("tides.sh").first().waitFor();
  await look(page, "question-run");
  await once();
  await question(page).getByText("A boat trip").first().waitFor();
  await look(page, "question-write");
  await once();
  await answer(page).getByText(WORK_DONE).waitFor();
  await idle(page);
  await look(page, "conversation-end");
  await page.locator(".scroller").evaluate((box) => (box.scrollTop = 0));
  await page.locator(".reasoning summary").first().click();
  await page.locator(".todos summary").click();
  await look(page, "conversation-top");
  await page.locator(".todos summary").click();
  await page.locator(".tool-head").nth(3).click();
  await page.locator(".tool-head").nth(3).scrollIntoViewIfNeeded();
  await look(page, "tool");
  await page.locator("[data-state=failed] .tool-head").click();
  await look(page, "tool-failed");
  for (const tab of ["Skills", "Context", "Files", "Artifacts", "Usage"]) {
    await panel(page, tab);
    await page.waitForTimeout(400);
    if (tab === "Context") await page.getByRole("tabpanel").locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    if (tab === "Usage") await page.getByRole("tabpanel").locator("summary").click();
    await look(page, `panel-${tab.toLowerCase()}`);
    if (tab === "Files") {
      await page.getByRole("tabpanel").getByRole("button", { name: "plan.md", exact: true }).click();
      await page.getByRole("dialog").getByRole("heading", { name: "A boat trip" }).waitFor();
      await look(page, "preview");
      await page.keyboard.press("Escape");
    }
    if (tab === "Skills") {
      const manifest = "---\nname: knots\ndescription: Ties knots of sailors.\nallowed-tools: Bash Read\ncompatibility: a rope\n---\n\n# Knots\n\nBe kind.\u200b Run scripts/tie.sh.\n";
      const buffer = tar({ "SKILL.md": manifest, "scripts/tie.sh": "echo bowline\n" });
      await page.getByLabel("Add a skill").setInputFiles({ name: "knots.tar", mimeType: "application/x-tar", buffer });
      await page.getByRole("dialog").getByText("scripts/tie.sh", { exact: true }).waitFor();
      await look(page, "own-skill");
      await page.keyboard.press("Escape");
      await look(page, "own-skills");
      await page.getByRole("tabpanel").getByRole("button", { name: "tides", exact: true }).last().click();
      await page.getByRole("dialog").getByRole("heading", { name: "Instructions" }).waitFor();
      await look(page, "skill");
      await page.keyboard.press("Escape");
    }
  }
  if (isPhone) await page.keyboard.press("Escape");
  await begin(page, SLOW);
  await page.locator("[data-live]").getByText("word 9").waitFor();
  await look(page, "speaking");
  await send(page, HELLO);
  await page.waitForTimeout(300);
  await look(page, "sent-meanwhile");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("[data-outcome]").waitFor();
  await idle(page);
  await look(page, "cancelled");
  await begin(page, USE_TOOL);
  await question(page).getByRole("button", { name: "No, with a reason" }).click();
  await look(page, "question-reason");
  await begin(page, FAILS);
  await question(page).waitFor();
  await look(page, "question-long");
  await once();
  await answer(page).getByText("It failed.").waitFor();
  await idle(page);
  await page.locator(".tool-head").first().click();
  await look(page, "run-failed");
  await begin(page, `${REPEAT}\n| Pressure | Before noon | After noon | At night | Temperature | Wind | Remarks |\n| --- | --- | ---: | --- | --- | --- | --- |\n| 120/080 | 1,013.25 | 1,009.75 | 998/1002 | -12.5 | 14/22 | fair with a breeze that turns |\n`);
  await idle(page);
  await look(page, "table");
  await send(page, "/tides");
  await page.getByRole("article", { name: "Added by the agent" }).waitFor();
  await idle(page);
  await look(page, "started-skill");
  await page.locator(".topbar").getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByLabel("Title").waitFor();
  await look(page, "rename");
  await page.keyboard.press("Escape");
  await begin(page, ATTACK);
  await question(page).waitFor();
  await look(page, "hostile-question");
  if (isPhone) {
    await page.getByRole("button", { name: "Threads" }).click();
    await page.getByRole("dialog").getByLabel("Search threads").waitFor();
    await look(page, "drawer");
  }
  for (const view of ["tokens", "users", "skills", "queue", "audit"]) {
    await page.goto(`${URL_}/#/settings/${view}`);
    await page.locator(".settings").waitFor();
    if (view === "users" ) {
      await page.getByLabel("Name").fill(`ada-${name}`);
      await page.getByRole("button", { name: "Create" }).click();
      await page.locator(".secret").waitFor();
    }
    await look(page, view);
    if (view === "users") {
      await page.getByRole("button", { name: "Limits of" }).last().click();
      await page.getByLabel("Tokens in a day").waitFor();
      await look(page, "limits");
      await page.keyboard.press("Escape");
    }
  }
  if (problems.length > 0) console.log(`${name}:\n${problems.join("\n")}`);
  await context.close();
}
await browser.close();
