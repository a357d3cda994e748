import { expect, test } from 'vitest';
import { compareCommands, issuedInput, membersOf, type Part } from './command-fields.ts';

const reason =
  'Instance "o-1", execution 1, event 13: history records a call of activity "chargeCard" with input {"amount":4900}, but the code issued a call of activity "applyVoucher" with input {"voucher":"A. Restore B","of":{"n":[1,2]}}. Restore the old code path.';
const marked = (parts: readonly Part[] = []): string =>
  parts.map(({ text, isDifferent }) => (isDifferent ? `[${text}]` : text)).join('');

test('the issued input is read from the message, also with its own quotes and stops', () => {
  expect(issuedInput(reason)).toBe('{"voucher":"A. Restore B","of":{"n":[1,2]}}');
  expect(issuedInput('the code issued no command')).toBeUndefined();
});

test('a clipped input is taken as far as it goes', () => {
  const clipped =
    'but the code issued a call of activity "a" with input {"text":"abc…. Restore it.';
  expect(issuedInput(clipped)).toBe('{"text":"abc…');
});

test('members are texts, so that numbers keep all their digits', () => {
  expect(membersOf('{"a":12990071992547409912345,"b":{"c":"},"}}')).toEqual([
    '"a": 12990071992547409912345',
    '"b": {"c":"},"}',
  ]);
  expect(membersOf('[1]')).toBeUndefined();
  expect(membersOf('{"a":1')).toBeUndefined();
  expect(membersOf('{}')).toEqual([]);
});

test('only the members that differ are marked', () => {
  const rows = compareCommands(
    { kind: 'call', name: 'a', operation: 4, input: '{"amount":1,"currency":"EUR"}' },
    { kind: 'call', name: 'b', operation: 4, input: '{"amount":2,"currency":"EUR"}' },
  );
  expect(rows.map(({ field, isDifferent }) => [field, isDifferent])).toEqual([
    ['kind', false],
    ['name', true],
    ['input', true],
    ['place', false],
  ]);
  expect(marked(rows[2]?.recorded)).toBe('{ ["amount": 1], "currency": "EUR" }');
  expect(marked(rows[2]?.issued)).toBe('{ ["amount": 2], "currency": "EUR" }');
});

test('a command that one side does not have is none there', () => {
  const rows = compareCommands({ kind: 'call', name: 'a' }, undefined);
  expect(rows.map(({ issued }) => marked(issued))).toEqual(['[none]', '[none]']);
});
