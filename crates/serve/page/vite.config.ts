import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** Writes licences.txt: the licence of every package whose code is in the bundle. */
function licences(): Plugin {
  let root = ".";
  return {
    name: "licences",
    configResolved(config) {
      root = config.root;
    },
    generateBundle() {
      const names = new Set<string>();
      for (const id of this.getModuleIds()) {
        const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
        if (name) names.add(name);
      }
      const parts = [...names].sort().map((name) => {
        const folder = join(root, "node_modules", name);
        const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
        const text = readFileSync(join(folder, "LICENSE"), "utf8").replaceAll("\r\n", "\n").trim();
        return `${name} ${version} (${license})\n\n${text}\n`;
      });
      const rule = `\n${"-".repeat(80)}\n\n`;
      this.emitFile({ type: "asset", fileName: "licences.txt", source: parts.join(rule) });
    },
  };
}

export default defineConfig({
  base: "/",
  publicDir: false,
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: process.env["PROWESS_PAGE_OUT"] ?? "../assets",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    // A preload script and inlined assets would be code and data that the content security policy does not allow.
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: { entryFileNames: "app.js", chunkFileNames: "[name].js", assetFileNames: "app[extname]" },
    },
  },
  plugins: [licences()],
  test: { include: ["tests/**/*.test.{ts,tsx}"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
