/**
 * The single-statement claim of work items against the rule `chooseDue`. The path may leave a claim to the general path.
 * It must not claim other items than the rule chooses, nor in another order.
 */
import { expect, it } from 'vitest';
import { SingleStatementClaims } from '../../../src/providers/postgres/single-statement/tasks.ts';
import { chooseDue, isClaimed } from '../../../src/providers/rules/claims.ts';
import { randomFrom } from '../helpers/random.ts';
import { claimFences } from './claim-fences.ts';
import { applyMutation } from './mutation.ts';
import { definitionKeys, openPathDatabase } from './path-trial.ts';

const now = 1_000_000;
const wanted: readonly number[] = [definitionKeys.activity, definitionKeys.task];

interface Item {
  readonly itemKey: number;
  readonly definitionKey: number;
  readonly priority: number;
  readonly nextAt: number;
  readonly claims: number;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancelRequested: boolean;
  readonly expiresAt: number | null;
}

type Random = (below: number) => number;

function pick<T>(random: Random, values: readonly [T, ...T[]]): T {
  return values[random(values.length)] ?? values[0];
}

function randomItem(random: Random, itemKey: number): Item {
  const { activity, task, otherActivity } = definitionKeys;
  const dueAt = now - random(5) * 100_000 + (random(8) === 0 ? 500_000 : 0);
  const lock = pick(random, ['none', 'none', 'none', 'none', 'held', 'renewed', 'lapsed'] as const);
  const lockedUntil = { none: null, held: now + 1, renewed: now + 5, lapsed: now - random(2) };
  const until = lockedUntil[lock];
  const cancelRequested = random(20) === 0;
  return {
    itemKey,
    definitionKey: pick(random, [activity, activity, task, task, otherActivity]),
    priority: random(3) - 1,
    // A renewal and a cancel request move the due time of a claimed item to the end of its lease.
    nextAt: until !== null && (lock === 'renewed' || cancelRequested) ? until : dueAt,
    claims: random(12) === 0 ? 2 : random(2),
    lockToken: until === null ? null : 'held',
    lockedUntil: until,
    cancelRequested,
    expiresAt: until === null && random(15) === 0 ? now + random(3) - 1 : null,
  };
}

/** The items that the general path claims. */
function chosenKeys(items: readonly Item[], max: number): readonly number[] {
  const due = items
    .map((item) => ({ ...item, nextAt: Math.max(item.nextAt, item.lockedUntil ?? 0) }))
    .filter((item) => item.nextAt <= now && !isClaimed(item, now))
    .filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
  // A flagged item ends without its handler, so it comes first and any worker can claim it.
  const flagged = due.filter((item) => item.cancelRequested);
  const others = due.filter((item) => !item.cancelRequested && wanted.includes(item.definitionKey));
  const chosen = chooseDue({
    max,
    trusted: [
      ...flagged.map((item) => ({ ...item, priority: 101 })),
      ...others.filter(({ claims }) => claims < 2),
    ],
    suspects: others.filter(({ claims }) => claims >= 2),
    keyOf: ({ itemKey }) => itemKey,
  });
  return chosen.map(({ itemKey }) => itemKey);
}

async function run(trials: number): Promise<{
  readonly claimed: number;
  readonly left: number;
  readonly breaches: readonly unknown[];
}> {
  const { parts, insert, query } = await openPathDatabase();
  const path = new SingleStatementClaims(parts);
  const random = randomFrom(20_261_116);
  const report = { claimed: 0, left: 0, breaches: [] as unknown[] };
  for (let trial = 0; trial < trials && report.breaches.length === 0; trial += 1) {
    const items = Array.from({ length: 1 + random(6) }, (_, place) =>
      randomItem(random, trial * 10 + place),
    );
    const max = 1 + random(3);
    await query('DELETE FROM worker_queue');
    await insert('worker_queue', items.map(toRow));
    const request = { max, lockMs: 10, waitMs: 0, names: ['activity'], tasks: ['task'] };
    const found = (await path.claim(request, now)).items.map(({ itemKey }) => itemKey);
    const expected = chosenKeys(items, max);
    if (found.length > 0) report.claimed += 1;
    else if (expected.length > 0) report.left += 1;
    const isSame = found.length === 0 || String(found) === String(expected);
    if (!isSame) report.breaches.push({ items, max, found, expected });
  }
  return report;
}

function toRow(item: Item) {
  return {
    item_key: item.itemKey,
    instance_key: item.itemKey,
    execution_id: 1,
    operation: 1,
    definition_key: item.definitionKey,
    priority: item.priority,
    next_at: item.nextAt,
    claims: item.claims,
    lock_token: item.lockToken,
    locked_until: item.lockedUntil,
    cancel_requested: item.cancelRequested,
    cancel_requested_at: item.cancelRequested ? 1 : null,
    expires_at: item.expiresAt,
    created_at: 1,
  };
}

it('the single-statement claim claims only the items that the rule chooses', async () => {
  const { claimed, left, breaches } = await run(600);
  expect(breaches).toEqual([]);
  expect(claimed).toBeGreaterThan(100);
  expect(left).toBeGreaterThan(100);
});

it.each(claimFences.fences)(
  'a claim that does not demand $demands violates the rule',
  async (fence) => {
    const sent = applyMutation({ ...fence, statement: claimFences.name });
    const { breaches } = await run(200);
    expect(sent()).toBeGreaterThan(0);
    expect(breaches).not.toEqual([]);
  },
);
