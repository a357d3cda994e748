import { describe, expect, it } from 'vitest';
import type { NewTask } from '../contract/tasks.ts';
import { existingStart, planExistingStart, taskTimes } from './starts.ts';

const start = { kind: 'task', name: 'mail', inputHash: 'h1' } as const;

it('existingStart recognizes a repeat by kind, name and input', () => {
  expect(existingStart(start, { ...start })).toEqual({ kind: 'exists' });
  for (const changed of [{ kind: 'orchestration' }, { name: 'report' }, { inputHash: 'h2' }]) {
    const wanted = { ...start, ...changed } as typeof start;
    expect(existingStart(start, wanted)).toEqual({ kind: 'conflict', name: 'mail' });
  }
});

it.each([
  [{}, { runAt: null, expiresAt: null }],
  [{ delayMs: 1.5 }, { runAt: 102, expiresAt: null }],
  [
    { runAt: 50, expiresInMs: 10 },
    { runAt: 50, expiresAt: 110 },
  ],
  [
    { delayMs: 20, expiresInMs: 10 },
    { runAt: 120, expiresAt: 130 },
  ],
  [{ expiresAt: 70.2 }, { runAt: null, expiresAt: 71 }],
])('taskTimes of %j at 100 are %j', (task, times) => {
  expect(taskTimes(task as NewTask, 100)).toEqual(times);
});

describe('planExistingStart()', () => {
  const existing = {
    kind: 'orchestration',
    name: 'order',
    inputHash: 'hash',
    incarnation: 'first',
  } as const;
  const wanted = { name: 'order', inputHash: 'hash', incarnation: 'second' };
  const event = {
    message: { kind: 'x', executionId: null, operation: null, data: '', payload: null },
  };

  it('finds a repeat, and rejects another input', () => {
    expect(planExistingStart(existing, wanted)).toBe('exists');
    expect(planExistingStart(existing, { ...wanted, inputHash: 'other' })).toBe('conflict');
  });

  it('rejects another name and another kind, whatever the options', () => {
    for (const options of [{ event }, { onConflict: 'useExisting' as const }]) {
      expect(planExistingStart(existing, { ...wanted, name: 'other', ...options })).toBe(
        'conflict',
      );
      expect(planExistingStart({ ...existing, kind: 'task' }, { ...wanted, ...options })).toBe(
        'conflict',
      );
    }
  });

  it('raises the event of a start, whatever its input', () => {
    expect(planExistingStart(existing, { ...wanted, inputHash: 'other', event })).toBe('raise');
  });

  it('replaces an instance once per incarnation', () => {
    const replacing = { ...wanted, onConflict: 'terminateExisting' as const };
    expect(planExistingStart(existing, replacing)).toBe('replace');
    expect(planExistingStart({ ...existing, incarnation: 'second' }, replacing)).toBe('exists');
  });
});
