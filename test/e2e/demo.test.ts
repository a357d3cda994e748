import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { root, runProgram } from './run-program.ts';

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

it('with --stay, the demo serves the dashboard and kills workers until it is interrupted', async () => {
  const child = spawn(process.execPath, [join(root, 'demo/main.ts'), '--stay'], {
    cwd: folder,
    env: { ...process.env, TMPDIR: folder, TEMP: folder, TMP: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  const exit = once(child, 'exit');
  try {
    await expect.poll(() => stdout).toMatch(/^Dashboard: http:\/\/127\.0\.0\.1:\d+/m);
    const url = /^Dashboard: (\S+)$/m.exec(stdout)?.[1] ?? '';
    const page = await fetch(url, { headers: { accept: 'text/html' } });
    expect(await page.text()).toContain('<div id="app">');
    await expect
      .poll(() => stdout, { timeout: 40_000 })
      .toMatch(/is killed: \d+ orders completed, \d+ continue in the next process/);
    expect(stdout).toContain('Nothing was lost, and nothing that was recorded ran again.');
    // Before the first order, so that the reader can watch all of them.
    expect(stdout.indexOf('Dashboard: ')).toBeLessThan(stdout.indexOf('Process '));
    const list = await fetch(new URL('/v1/instances?name=order', url));
    const { items } = (await list.json()) as { readonly items: readonly unknown[] };
    expect(items.length).toBeGreaterThan(3);
  } finally {
    child.kill('SIGINT');
  }
  expect((await exit)[0]).toBe(130);
  expect(readdirSync(folder)).toEqual([]);
});
