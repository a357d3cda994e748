import { describe, expect, it } from 'vitest';
import { readRetentionPolicies, resolveRetention } from './retention-policy.ts';
import { isDue } from './sweep.ts';

const day = 86_400_000;
const nowMs = 1_000 * day;

/** Returns after how many days a root is due; `undefined` if never. */
function keptDays(policies: readonly unknown[], status: 'completed' | 'failed', name: string) {
  const { instances } = readRetentionPolicies(policies);
  for (let days = 0; days <= 400; days += 1) {
    if (isDue(instances, { status, name, endedAt: nowMs - days * day - 1, tags: {} }, nowMs))
      return days;
  }
  return undefined;
}

describe('retention policies', () => {
  const policies = [
    { names: 'audit-*', keepFor: 'forever' },
    { names: 'health', keepFor: '1d' },
    { statuses: 'completed', keepFor: '30d' },
    { statuses: ['failed', 'terminated'], keepFor: '90d' },
  ];

  it('the first policy that matches status and name applies', () => {
    expect(keptDays(policies, 'completed', 'order')).toBe(30);
    expect(keptDays(policies, 'failed', 'order')).toBe(90);
    expect(keptDays(policies, 'failed', 'health')).toBe(1);
    expect(keptDays(policies, 'completed', 'audit-7')).toBeUndefined();
  });

  it('a policy with tags applies to roots that have all of them', () => {
    const { instances } = readRetentionPolicies([
      { tags: { tenant: '7' }, keepFor: '1d' },
      { keepFor: 'forever' },
    ]);
    const root = { status: 'completed', name: 'x', endedAt: 0 } as const;
    expect(isDue(instances, { ...root, tags: { tenant: '7', a: 'b' } }, nowMs)).toBe(true);
    expect(isDue(instances, { ...root, tags: { tenant: '8' } }, nowMs)).toBe(false);
  });

  it('an instance without a matching policy is kept', () => {
    const { instances } = readRetentionPolicies(policies);
    expect(
      isDue(instances, { status: 'canceled', name: 'order', endedAt: 0, tags: {} }, nowMs),
    ).toBe(false);
  });

  it('a root is due one millisecond after keepFor has passed', () => {
    const { instances } = readRetentionPolicies([{ keepFor: 10 }]);
    const root = { status: 'completed', name: 'x' } as const;
    expect(isDue(instances, { ...root, endedAt: nowMs - 10, tags: {} }, nowMs)).toBe(false);
    expect(isDue(instances, { ...root, endedAt: nowMs - 11, tags: {} }, nowMs)).toBe(true);
    expect(isDue(instances, { ...root, endedAt: null, tags: {} }, nowMs)).toBe(false);
  });

  it.each([
    ['a general policy before a specific one', [{ keepFor: 1 }, { names: 'a', keepFor: 2 }]],
    [
      'a wider pattern first',
      [
        { names: 'a*', keepFor: 1 },
        { names: ['ab', 'ac*'], keepFor: 2 },
      ],
    ],
    ['more statuses first', [{ keepFor: 1 }, { statuses: 'failed', keepFor: 2 }]],
    ['a pattern that matches all names', [{ names: '*', keepFor: 1 }, { keepFor: 2 }]],
    ['policies for executions', [{ keepExecutions: 1 }, { names: 'a', keepExecutions: 2 }]],
  ])('rejects a policy that can never apply: %s', (_, shadowing) => {
    expect(() => readRetentionPolicies(shadowing)).toThrow(/policies\[1\] can never apply/);
  });

  it('policies for instances and for executions are independent', () => {
    const { instances, executions } = readRetentionPolicies([
      { keepFor: '1d' },
      { names: 'poll', keepExecutions: 3, keepExecutionsFor: '1h' },
      { keepExecutions: 10 },
    ]);
    expect(instances).toHaveLength(1);
    expect(executions).toMatchObject([{ keepLast: 3, keepForMs: 3_600_000 }, { keepLast: 10 }]);
  });
});

describe('resolveRetention rejects invalid options', () => {
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
