import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { plantedBugs } from './planted-bugs/planted-bugs.ts';

interface Finding {
  readonly fault: string;
  readonly seed?: number;
}

const program = new URL('find-bugs.ts', import.meta.url).pathname;

it('a failing seed shrinks to a few decisions and a timeline that ends with the violation', async () => {
  const fault = 'a handler starts although its lease has ended';
  const args = [program, '--recorded', '--shrink', fault];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const lines = stdout.trim().split('\n');
  const { decisionsBefore, decisions } = JSON.parse(lines.at(-1) ?? '') as {
    readonly decisionsBefore: number;
    readonly decisions: readonly string[];
  };
  expect(decisions.length).toBeLessThan(decisionsBefore / 4);
  expect(lines.at(-2)).toMatch(/VIOLATION .* after its lease ended/);
}, 120_000);

it('the simulation finds each of the planted bugs', async () => {
  // Broken code may reject anywhere, which would end this process.
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--recorded']);
  const findings = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Finding);
  expect(findings.filter(({ seed }) => seed === undefined)).toEqual([]);
  expect(findings.map(({ fault }) => fault)).toEqual(plantedBugs.map(({ bug }) => bug.fault));
  expect(findings.length).toBeGreaterThanOrEqual(30);
}, 300_000);
