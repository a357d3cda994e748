import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runProgram } from './run-program.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-demo-test-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface LedgerLine {
  readonly order: string;
  readonly step: string;
  readonly what: 'begun' | 'done';
  readonly pid: number;
}

it('the demo kills a worker, finishes in another, and repeats nothing that was recorded', async () => {
  const ledgerFile = join(folder, 'ledger.jsonl');
  const before = performance.now();
  const { code, stdout, stderr } = await runProgram('demo/main.ts', {
    cwd: folder,
    env: { PERDURE_DEMO_LEDGER: ledgerFile, TMPDIR: folder, TEMP: folder, TMP: folder },
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(performance.now() - before).toBeLessThan(10_000);

  const [first, killed, second] = [...stdout.matchAll(/^Process (\d+) /gm)].map(([, pid]) => pid);
  expect(killed).toBe(first);
  expect(second).not.toBe(first);
  expect(stdout).toContain(`Process ${first} is killed (SIGKILL): `);
  expect(stdout).toContain('Nothing was lost, and nothing that was recorded ran again.');
  // Not a terminal: no colours, no cursor movements.
  expect(stdout).not.toContain('\u001b');

  const ledger = readFileSync(ledgerFile, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as LedgerLine);
  const doneBy = (pid: string | undefined) =>
    ledger.filter((line) => line.what === 'done' && String(line.pid) === pid);
  const begunBy = (pid: string | undefined) =>
    new Set(
      ledger
        .filter((line) => line.what === 'begun' && String(line.pid) === pid)
        .map(({ order, step }) => `${order} ${step}`),
    );
  const done = [...doneBy(first), ...doneBy(second)].map(({ order, step }) => `${order} ${step}`);
  expect(done).toHaveLength(12);
  expect(new Set(done).size).toBe(12);
  expect(doneBy(first).length).toBeGreaterThanOrEqual(5);
  const repeated = doneBy(first).filter(({ order, step }) =>
    begunBy(second).has(`${order} ${step}`),
  );
  expect(repeated).toEqual([]);

  expect(readdirSync(folder)).toEqual(['ledger.jsonl']);
});
