// Writes the skills of the tests into a directory: node e2e/skills.js DIRECTORY
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HOSTILE, HOSTILE_NAME } from "./script.js";

const [directory] = process.argv.slice(2);
if (!directory) {
  console.error("skills: name a directory");
  process.exit(2);
}

function file(path, text) {
  const whole = join(directory, path);
  mkdirSync(dirname(whole), { recursive: true });
  writeFileSync(whole, text);
}

const skill = (name, description, text, more = "") =>
  `---\nname: ${JSON.stringify(name)}\ndescription: ${JSON.stringify(description)}\n${more}---\n\n${text}\n`;

file("tides/SKILL.md", skill(
  "tides", "Looks up the tides of a harbour. Use before boat trips.",
  "# Tides\n\nRun `scripts/tides.sh`. It writes `out/tides.csv`.\n", "license: MIT\n",
));
file("tides/scripts/tides.sh", `mkdir -p out
for hour in 06:10 12:20 18:35; do
  echo "reading the tide of $hour"
  sleep 0.3
done
printf 'time,tide\\n06:10,low\\n12:20,high\\n18:35,low\\n' >out/tides.csv
echo "high at 12:20"
`);
file("charts/SKILL.md", skill("charts", "Draws sea charts of a coast, with depths and lights.", "Draw with `scripts/draw.py`."));
file("charts/scripts/draw.py", "print('drawn')\n");

// What a stranger may write into a skill.
file("stranger/SKILL.md", skill("stranger", HOSTILE, HOSTILE, `license: ${JSON.stringify(HOSTILE)}\nallowed-tools: ${JSON.stringify(HOSTILE)}\n`));
file(`stranger/${HOSTILE_NAME}`, HOSTILE);
const name = "<img src=x onerror=window.__pwned=1>";
file(`${name}/SKILL.md`, skill(name, HOSTILE, HOSTILE));
