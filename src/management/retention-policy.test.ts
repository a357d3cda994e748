import { describe, expect, it } from 'vitest';
import { readRetentionPolicies, resolveRetention } from './retention-policy.ts';
import { isDue } from './sweep.ts';

const day = 86_400_000;
const nowMs = 1_000 * day;

/** After how many days a root goes; `undefined`: never. */
function keptDays(policies: readonly unknown[], status: 'completed' | 'failed', name: string) {
  const { instances } = readRetentionPolicies(policies);
  for (let days = 0; days <= 400; days += 1) {
    if (isDue(instances, { status, name, endedAt: nowMs - days * day - 1 }, nowMs)) return days;
  }
  return undefined;
}

describe('of several policies', () => {
  const policies = [
    { names: 'audit-*', keepFor: 'forever' },
    { names: 'health', keepFor: '1d' },
    { statuses: 'completed', keepFor: '30d' },
    { statuses: ['failed', 'terminated'], keepFor: '90d' },
  ];

  it('the first that matches decides, by status and name', () => {
    expect(keptDays(policies, 'completed', 'order')).toBe(30);
    expect(keptDays(policies, 'failed', 'order')).toBe(90);
    expect(keptDays(policies, 'failed', 'health')).toBe(1);
    expect(keptDays(policies, 'completed', 'audit-7')).toBeUndefined();
  });

  it('none may match, and then all is kept', () => {
    const { instances } = readRetentionPolicies(policies);
    expect(isDue(instances, { status: 'canceled', name: 'order', endedAt: 0 }, nowMs)).toBe(false);
  });

  it('a root goes once it is older than it is kept, to the millisecond', () => {
    const { instances } = readRetentionPolicies([{ keepFor: 10 }]);
    const root = { status: 'completed', name: 'x' } as const;
    expect(isDue(instances, { ...root, endedAt: nowMs - 10 }, nowMs)).toBe(false);
    expect(isDue(instances, { ...root, endedAt: nowMs - 11 }, nowMs)).toBe(true);
    expect(isDue(instances, { ...root, endedAt: null }, nowMs)).toBe(false);
  });

  it.each([
    ['a general one before a particular one', [{ keepFor: 1 }, { names: 'a', keepFor: 2 }]],
    [
      'a wider pattern',
      [
        { names: 'a*', keepFor: 1 },
        { names: ['ab', 'ac*'], keepFor: 2 },
      ],
    ],
    ['more statuses', [{ keepFor: 1 }, { statuses: 'failed', keepFor: 2 }]],
    ['everything as a pattern', [{ names: '*', keepFor: 1 }, { keepFor: 2 }]],
    ['executions', [{ keepExecutions: 1 }, { names: 'a', keepExecutions: 2 }]],
  ])('one that could never decide is refused: %s', (_, shadowing) => {
    expect(() => readRetentionPolicies(shadowing)).toThrow(/policies\[1\] could never decide/);
  });

  it('those for instances and for executions do not meet', () => {
    const { instances, executions } = readRetentionPolicies([
      { keepFor: '1d' },
      { names: 'poll', keepExecutions: 3, keepExecutionsFor: '1h' },
      { keepExecutions: 10 },
    ]);
    expect(instances).toHaveLength(1);
    expect(executions).toMatchObject([{ keepLast: 3, keepForMs: 3_600_000 }, { keepLast: 10 }]);
  });
});

describe('bad retention options are refused', () => {
  it.each([
    [undefined],
    [null],
    [{}],
    [{ policies: [] }],
    [{ policies: {} }],
    [{ policies: [null] }],
    [{ policies: [{}] }],
    [{ policies: [{ olderThan: '30d' }] }],
    [{ policies: [{ keepFor: '30d', statuses: 'running' }] }],
    [{ policies: [{ keepFor: '30d', statuses: [] }] }],
    [{ policies: [{ keepFor: '30d', names: [] }] }],
    [{ policies: [{ keepExecutions: -1 }] }],
    [{ policies: [{ keepExecutions: 1.5 }] }],
    [{ policies: [{ keepExecutions: 1, keepFor: '1d' }] }],
    [{ policies: [{ keepFor: '30d' }], interval: 10 }],
    [{ policies: [{ keepFor: '30d' }], every: '1h' }],
    [{ policies: [{ keepFor: '30d' }], dryRun: 'yes' }],
  ])('%j', (options) => {
    expect(() => resolveRetention(options)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    );
  });

  it.each([
    [{ policies: [{ keepFor: 'a month' }] }],
    [{ policies: [{ keepFor: -1 }] }],
    [{ policies: [{ keepFor: Number.NaN }] }],
    [{ policies: [{ keepExecutions: 1, keepExecutionsFor: 'long' }] }],
    [{ policies: [{ keepFor: '30d' }], interval: 'often' }],
  ])('%j', (options) => {
    expect(() => resolveRetention(options)).toThrow(
      expect.objectContaining({ code: 'INVALID_DURATION' }),
    );
  });
});
