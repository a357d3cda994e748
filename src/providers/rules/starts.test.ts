import { expect, it } from 'vitest';
import type { NewTask } from '../contract/tasks.ts';
import { existingStart, taskTimes } from './starts.ts';

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
