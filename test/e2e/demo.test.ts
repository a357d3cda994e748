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

it('the demo kills a worker, another finishes, and no recorded step runs again', async () => {
  const ledgerFile = join(folder, 'ledger.jsonl');
  const { code, stdout, stderr } = await runProgram('demo/main.ts', {
    cwd: folder,
    env: { PERDURE_DEMO_LEDGER: ledgerFile, TMPDIR: folder, TEMP: folder, TMP: folder },
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });

  const [first, killed, second] = [...stdout.matchAll(/^Process (\d+) /gm)].map(([, pid]) => pid);
  expect(killed).toBe(first);
  expect(second).not.toBe(first);
  expect(stdout).toContain(`Process ${first} is killed (SIGKILL): `);
  expect(stdout).toContain('Nothing was lost, and nothing that was recorded ran again.');
  // Not a terminal: no colours, no cursor movements.
  expect(stdout).not.toContain('\u001b');

  const told = stdout.slice(0, stdout.indexOf('is killed'));
  const recorded = [...told.matchAll(/(order-\d) {2}(.+): done/g)].map(
    ([, order, step]) => `${order} ${step}`,
  );
  expect(recorded.length).toBeGreaterThanOrEqual(5);

  const ledger = readFileSync(ledgerFile, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as LedgerLine);
  const happened = (what: LedgerLine['what']) =>
    ledger
      .filter((line) => line.what === what)
      .map(({ order, step, pid }) => ({ step: `${order} ${step}`, pid: String(pid) }));
  expect(new Set(happened('done').map(({ step }) => step)).size).toBe(12);
  for (const step of recorded) {
    expect(happened('begun').filter((entry) => entry.step === step)).toEqual([
      { step, pid: first },
    ]);
    expect(happened('done').filter((entry) => entry.step === step)).toEqual([{ step, pid: first }]);
  }
  // Without an interrupted step the kill would prove nothing.
  expect(happened('begun').length).toBeGreaterThan(12);

  expect(readdirSync(folder)).toEqual(['ledger.jsonl']);
});
