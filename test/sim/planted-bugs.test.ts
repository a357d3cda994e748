import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { earlierBugs } from './planted-bugs/bugs-found-before.ts';
import { foundBy } from './planted-bugs/found-by.ts';
import { notFound } from './planted-bugs/not-found.ts';
import { allBugs, plantedBugs } from './planted-bugs/planted-bugs.ts';

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

it('each bug that was found before the simulation is put back, or has another test', () => {
  for (const { bug, plantedAs = [], outside } of earlierBugs) {
    const missing = plantedAs.filter((fault) => foundBy[fault] === undefined);
    expect({ bug, missing }).toEqual({ bug, missing: [] });
    if (outside === undefined) expect(plantedAs).not.toEqual([]);
    else expect({ bug, hasTest: existsSync(outside.test) }).toEqual({ bug, hasTest: true });
  }
});

it('each guard that can be removed is either found, or recorded as not found with a reason', () => {
  const found = Object.keys(foundBy);
  const left = notFound.flatMap(({ faults }) => faults);
  const all = new Set(allBugs.map(({ fault }) => fault));
  const classified = new Set([...found, ...left]);
  // Add a new guard to `foundBy` with a seed of `npm run sim:bugs -- --only <fault>`, or to `notFound`.
  expect([...all].filter((fault) => !classified.has(fault))).toEqual([]);
  expect([...classified].filter((fault) => !all.has(fault))).toEqual([]);
  expect(found.length + left.length).toBe(classified.size);
});

it('the simulation finds each of the planted bugs', async () => {
  // Broken code may reject anywhere, which would end this process.
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--recorded']);
  const findings = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Finding);
  expect(findings.filter(({ seed }) => seed === undefined)).toEqual([]);
  expect(findings.map(({ fault }) => fault)).toEqual(plantedBugs.map(({ bug }) => bug.fault));
  expect(findings.length).toBeGreaterThanOrEqual(300);
}, 300_000);
