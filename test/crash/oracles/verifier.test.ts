import { expect, test } from 'vitest';
import type { LedgerLine } from './ledger.ts';
import { collectOperations, type ProcessRecord } from './operation-records.ts';
import { checkClaims } from './verifier.ts';

const leaseMs = 1_000;
const key = 'a/i/1.1';

function recordOf(name: string, lines: readonly LedgerLine[], killedAt?: number): ProcessRecord {
  return { name, lines, killedAt, pauses: [], outages: [] };
}

function claim(token: string, at: number): LedgerLine {
  return { line: 'claim', key, token, failures: 0, since: at, until: at + 10 };
}

/** What the checker finds if a second worker claims an item 100 ms after the first, which was killed after 300 ms. */
function violations(settling: readonly LedgerLine[]): readonly string[] {
  const first = recordOf('first', [claim('1.a', 0), ...settling], 300);
  const second = recordOf('second', [
    claim('1.b', 100),
    { line: 'settled', token: '1.b', how: 'acked', at: 200 },
  ]);
  const operation = collectOperations([first, second], leaseMs).get(key);
  if (operation === undefined) throw new Error('The claims were not collected.');
  return checkClaims(operation, leaseMs).violations;
}

const whileHeld = [`${key} was claimed by second while first held it`];

test('a claim during the lease of another worker is a violation', () => {
  expect(violations([])).toEqual(whileHeld);
  expect(violations([{ line: 'settling', token: '1.a' }])).toEqual(whileHeld);
});

test('a claim after an abandon is allowed, also if the first worker was killed before its response', () => {
  const abandoning = { line: 'settling', token: '1.a', by: 'abandon' } as const;
  expect(violations([abandoning])).toEqual([]);
  const settled = { line: 'settled', token: '1.a', at: 290 } as const;
  expect(violations([abandoning, { ...settled, how: 'abandoned' }])).toEqual([]);
  expect(violations([abandoning, { ...settled, how: 'refused' }])).toEqual(whileHeld);
});
