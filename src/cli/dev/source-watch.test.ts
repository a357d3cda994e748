import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { SourceWatch } from './source-watch.ts';

/** Watches two files. Returns their paths, and the changes so far. */
async function watchTwo() {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-watch-'));
  const [worker, greeting] = [join(folder, 'worker.ts'), join(folder, 'greeting.ts')];
  for (const file of [worker, greeting]) writeFileSync(file, 'export {};\n');
  const changes: string[] = [];
  const watch = new SourceWatch((path) => changes.push(path));
  onTestFinished(() => {
    watch.close();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const file of [worker, greeting]) watch.add(file);
  // The events of the creation.
  await delay(250);
  expect(changes).toEqual([]);
  return { worker, greeting, changes };
}

it('an event of an unchanged file does not cancel the check of a changed one', async () => {
  const { worker, greeting, changes } = await watchTwo();
  writeFileSync(greeting, 'export const greeting = 1;\n');
  await delay(30);
  // An event without a change of the content.
  chmodSync(worker, 0o600);
  await expect.poll(() => changes).toEqual([greeting]);
});

it('two files that change together are reported, each once', async () => {
  const { worker, greeting, changes } = await watchTwo();
  for (const file of [worker, greeting]) writeFileSync(file, 'export const changed = 1;\n');
  await expect.poll(() => changes.toSorted((a, b) => (a < b ? -1 : 1))).toEqual([greeting, worker]);
  await delay(250);
  expect(changes).toHaveLength(2);
});
