/**
 * `npm run test:node-versions [-- 22]`: runs the tests of `test/runtimes` on other versions of Node.js than that of all other
 * tests. Installs each version in a temporary folder.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const versions: Readonly<Record<string, string>> = { 22: '22.23.3', 26: '26.10.0' };

/** Installs a version and runs the tests on it. Returns whether they passed. */
function passesOn(version: string): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-node-'));
  try {
    const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
    const flags = ['--no-audit', '--no-fund', '--no-save', '--prefix', folder];
    execFileSync('npm', ['install', ...flags, `${name}@${version}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const node = join(folder, 'node_modules', name, 'bin', 'node');
    const { status } = spawnSync('npx', ['vitest', 'run', 'test/runtimes', '-t', 'Node.js'], {
      cwd: join(import.meta.dirname, '..'),
      env: { ...process.env, PERDURE_TEST_NODE: node },
      stdio: 'inherit',
    });
    return status === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(versions);
const failed: string[] = [];
for (const major of chosen) {
  const version = versions[major];
  if (version === undefined) {
    throw new Error(
      `Unknown version ${major}. Valid versions: ${Object.keys(versions).join(', ')}.`,
    );
  }
  console.log(`Node.js ${version}`);
  if (!passesOn(version)) failed.push(version);
}
if (failed.length > 0) {
  console.error(`The tests failed on Node.js ${failed.join(', ')}.`);
  process.exitCode = 1;
}
