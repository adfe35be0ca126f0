// Runs the tests of the page in Chromium: node e2e/run.js [NAME…]
// PROWESS_URL is the server's address, PROWESS_TOKEN a token with all scopes, PROWESS_LOGIN (optional) a one-time link,
// PROWESS_DATA (optional) the directory of the server on this machine. A
// NAME selects the tests that contain it. PROWESS_ASSETS is a directory with a built page to test in place of the server's. After a failure there is a picture of each page in PROWESS_PICTURES, if that is set.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, profile, signIn, TOKEN } from "./browser.js";
import { tests } from "./tests.js";

if (!TOKEN) {
  console.error("e2e: set PROWESS_TOKEN to a token of the server");
  process.exit(2);
}
const names = process.argv.slice(2);
const chosen = Object.entries(tests).filter(([name]) => names.length === 0 || names.some((part) => name.includes(part)));
const browser = await launch();
let failed = 0;
let left = 0;
for (const [name, test] of chosen) {
  const began = Date.now();
  const { context, problems } = await profile(browser);
  let skipped = null;
  try {
    // The tests of signing in begin without a page.
    const page = name.startsWith("log in") ? null : await signIn(context);
    await test({ browser, context, page, skip: (why) => (skipped = why) });
    if (problems.length > 0) throw new Error(problems.join("\n"));
    if (skipped) left += 1;
    console.log(skipped ? `skip  ${name}: ${skipped}` : `ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack ?? error}\n${problems.join("\n")}`);
    if (process.env.PROWESS_PICTURES) {
      mkdirSync(process.env.PROWESS_PICTURES, { recursive: true });
      for (const [index, page] of context.pages().entries()) {
        const file = join(process.env.PROWESS_PICTURES, `${name.replaceAll(/\W+/g, "-")}-${index}.png`);
        await page.screenshot({ path: file, timeout: 5000 }).catch(() => {});
      }
    }
  }
  await context.close();
}
await browser.close();
console.log(`${chosen.length - failed - left} of ${chosen.length} tests passed${left > 0 ? `, ${left} left out` : ""}`);
process.exit(failed > 0 || chosen.length === 0 ? 1 : 0);
