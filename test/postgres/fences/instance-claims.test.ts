/**
 * The single-statement claim of instances against the rule `chooseDue`. The path may leave a claim to the general path. It
 * must not claim other instances than the rule chooses, nor in another order, nor one that needs more than a claim.
 */
import assert from 'node:assert/strict';
import { expect, it } from 'vitest';
import { nowSql } from '../../../src/providers/postgres/driver/scope.ts';
import { SingleStatementInstanceClaims } from '../../../src/providers/postgres/single-statement/instance-claims.ts';
import { chooseDue } from '../../../src/providers/rules/claims.ts';
import { randomFrom } from '../helpers/random.ts';
import { applyMutation, literally, rangesOf, recordStatements } from './mutation.ts';
import { definitionKeys, openPathDatabase, type PathDatabase } from './path-trial.ts';

const now = 1_000_000;
const maxMessages = 3;
const name = 'perdure_claim_instances_plainly';
const secondDefinition = 8;
const otherDefinition = 9;
const wanted: readonly number[] = [definitionKeys.orchestration, secondDefinition];
const runnable = [
  { name: 'sample', version: '1' },
  { name: 'second', version: '1' },
];

interface Instance {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly nextAt: number;
  readonly claims: number;
  readonly cleanupAt: number | null;
  readonly isEnded: boolean;
  readonly isClosing: boolean;
  readonly historyLength: number;
  /** Kinds of visible messages, then of one that is not visible yet. */
  readonly visible: readonly string[];
  readonly hasLater: boolean;
}

type Random = (below: number) => number;

function randomInstance(random: Random, instanceKey: number): Instance {
  const historyLength = random(3) === 0 ? 0 : 4;
  const isStart = historyLength === 0 && random(6) > 0;
  const rest = Array.from(
    { length: random(10) === 0 ? 3 : random(10) === 0 ? 0 : 1 },
    () => 'event',
  );
  return {
    instanceKey,
    definitionKey: [otherDefinition, secondDefinition][random(5)] ?? definitionKeys.orchestration,
    nextAt: now - random(5) * 100_000 + (random(6) === 0 ? 500_000 : 0),
    claims: random(8) === 0 ? 2 : random(2),
    cleanupAt: random(15) === 0 ? now + random(3) - 1 : null,
    isEnded: random(25) === 0,
    isClosing: random(25) === 0,
    historyLength,
    visible: isStart ? ['start', ...rest] : rest,
    hasLater: random(5) === 0,
  };
}

const isDue = ({ nextAt }: Instance) => nextAt <= now;

/** The instances that the general path chooses. */
function chosenKeys(instances: readonly Instance[], max: number): readonly number[] {
  const due = instances.filter((one) => isDue(one) && wanted.includes(one.definitionKey));
  const expired = instances.flatMap((one) =>
    one.cleanupAt !== null && one.cleanupAt <= now ? [{ ...one, nextAt: one.cleanupAt }] : [],
  );
  return chooseDue({
    max,
    trusted: [...due.filter(({ claims }) => claims < 2), ...expired],
    suspects: due.filter(({ claims }) => claims >= 2),
    keyOf: ({ instanceKey }) => instanceKey,
  }).map(({ instanceKey }) => instanceKey);
}

/** Whether a claim of the instance writes no more than its lock. */
function isReadable({ isEnded, isClosing, historyLength, visible }: Instance): boolean {
  const hasStart = historyLength > 0 || visible.includes('start');
  return !isEnded && !isClosing && visible.length > 0 && visible.length < maxMessages && hasStart;
}

async function insertInstances({ insert, query }: PathDatabase, instances: readonly Instance[]) {
  for (const table of ['instances', 'instance_locks', 'orchestrator_queue'])
    await query(`DELETE FROM ${table}`);
  await insert(
    'instances',
    instances.map((one) => ({
      instance_key: one.instanceKey,
      instance_id: `instance ${one.instanceKey}`,
      incarnation: 'i1',
      definition_key: one.definitionKey,
      status: one.isEnded ? 'completed' : one.isClosing ? 'canceling' : 'running',
      execution_id: 1,
      history_length: one.historyLength,
      input_hash: 'hash',
      created_at: 1,
      cancel_requested_at: one.isClosing && !one.isEnded ? 1 : null,
      closing_reason: one.isClosing ? 'closing' : null,
      ended_at: one.isEnded ? 2 : null,
      completed_at: one.isEnded ? 2 : null,
    })),
  );
  await insert(
    'instance_locks',
    instances.map((one) => ({
      instance_key: one.instanceKey,
      definition_key: one.definitionKey,
      next_at: one.nextAt,
      cleanup_at: one.cleanupAt,
      claims: one.claims,
    })),
  );
  await insert(
    'orchestrator_queue',
    instances.flatMap(({ instanceKey, visible, hasLater }) =>
      [...visible, ...(hasLater ? ['later'] : [])].map((kind, place) => ({
        message_key: instanceKey * 10 + place,
        instance_key: instanceKey,
        visible_at: kind === 'later' ? now + 1 : now - 10 + place,
        kind,
        data: '{}',
        payload: null,
      })),
    ),
  );
}

async function run(trials: number): Promise<{
  readonly claimed: number;
  readonly left: number;
  readonly breaches: readonly unknown[];
}> {
  const database = await openPathDatabase();
  await database.insert('definitions', [
    { definition_key: secondDefinition, kind: 'orchestration', name: 'second', version: '1' },
    { definition_key: otherDefinition, kind: 'orchestration', name: 'other', version: '1' },
  ]);
  const path = new SingleStatementInstanceClaims(database.parts);
  const random = randomFrom(20_261_117);
  const report = { claimed: 0, left: 0, breaches: [] as unknown[] };
  for (let trial = 0; trial < trials && report.breaches.length === 0; trial += 1) {
    const instances = Array.from({ length: 1 + random(5) }, (_, place) =>
      randomInstance(random, trial * 10 + place + 1),
    );
    const max = 1 + random(3);
    await insertInstances(database, instances);
    const request = { max, lockMs: 10, waitMs: 0, runnable, maxMessages };
    const { rows } = await path.claim(request, now);
    const found = [...new Set(rows.map(({ instanceKey }) => instanceKey))];
    const expected = chosenKeys(instances, max);
    if (found.length > 0) report.claimed += 1;
    else if (expected.length > 0) report.left += 1;
    const byKey = new Map(instances.map((one) => [one.instanceKey, one]));
    const isComplete = found.every((key) => {
      const one = byKey.get(key) ?? assert.fail();
      const read = rows.filter(({ instanceKey }) => instanceKey === key).map(({ kind }) => kind);
      return isReadable(one) && String(read) === String(one.visible);
    });
    const isSame = found.length === 0 || (String(found) === String(expected) && isComplete);
    if (!isSame) report.breaches.push({ instances, max, found, expected });
  }
  return report;
}

/** Claims while a definition is paused or an orchestration is limited. */
async function claimBeside(special: 'pause' | 'limit'): Promise<number> {
  const database = await openPathDatabase();
  await insertInstances(database, [
    {
      instanceKey: 1,
      definitionKey: definitionKeys.orchestration,
      nextAt: now,
      claims: 0,
      cleanupAt: null,
      isEnded: false,
      isClosing: false,
      historyLength: 4,
      visible: ['event'],
      hasLater: false,
    },
  ]);
  if (special === 'pause')
    await database.insert('paused_definitions', [
      { kind: 'orchestration', name: 'x', paused_at: 1 },
    ]);
  else
    await database.query(
      `INSERT INTO limits (definition_key, declared, effective, global_limit) VALUES (1, '{}', '{}', 1)`,
    );
  const path = new SingleStatementInstanceClaims(database.parts);
  const { rows } = await path.claim({ max: 1, lockMs: 10, waitMs: 0, runnable, maxMessages }, now);
  return rows.length;
}

const fences = [
  {
    demands: 'no clean-up limit has expired',
    find: /\(SELECT 1 FROM \S+ WHERE cleanup_at IS NOT NULL(?:(?!LIMIT 1\) IS NULL).)+LIMIT 1\) IS NULL/,
    replace: 'TRUE',
  },
  {
    demands: 'no suspect is long due',
    find: /\(SELECT 1 FROM \(SELECT definition_key AS wanted_key(?:(?!AS long_due LIMIT 1).)+AS long_due LIMIT 1\) IS NULL/,
    replace: 'TRUE',
  },
  { demands: 'all of these conditions', find: / WHERE holds/, replace: '' },
  { demands: 'trusted instances', find: /suspect = FALSE/, replace: 'TRUE' },
  {
    demands: 'due instances',
    find: new RegExp(`next_at <= ${literally(nowSql)}(?= AND next_at IS NOT NULL)`),
    replace: 'TRUE',
  },
  {
    demands: 'a requested definition',
    find: /lock\.definition_key = wanted_key(?= AND suspect = FALSE)/,
    replace: 'TRUE',
  },
  {
    demands: 'the limit',
    find: /(?<=FROM due ORDER BY next_at, instance_key) LIMIT \$\d+::bigint/,
    replace: '',
  },
  { demands: 'a live instance', find: /instance\.ended_at IS NULL/, replace: 'TRUE' },
  { demands: 'no recorded end', find: /instance\.closing_reason IS NULL/, replace: 'TRUE' },
  {
    demands: 'a visible message, and fewer than the maximum',
    find: /found\.messages BETWEEN 1 AND \$\d+::bigint - 1/,
    replace: 'TRUE',
  },
  {
    demands: 'the start of an instance without history',
    find: /\(instance\.history_length > 0 OR found\.has_start\)/,
    replace: 'TRUE',
  },
  {
    demands: 'all instances or none',
    find: /\s+AND \(SELECT count\(\*\) FROM readable\) = \(SELECT count\(\*\) FROM chosen\)/,
    replace: '',
  },
  {
    demands: 'visible messages',
    find: new RegExp(
      String.raw`(?<=readable\.instance_key AND )visible_at <= ${literally(nowSql)}`,
    ),
    replace: 'TRUE',
  },
];
const selections = [
  {
    find: /\(SELECT definition_key AS wanted_key(?:(?!\) AS wanted).)+\) AS wanted/,
    times: 2,
  },
  { find: /NOT EXISTS \(SELECT FROM \S+\.paused_definitions\)/ },
  {
    find: /NOT EXISTS \(SELECT FROM \S+\.limits(?:(?!kind = 'orchestration'\)).)+kind = 'orchestration'\)/,
  },
  { find: /next_at IS NOT NULL(?=\s+ORDER BY next_at, instance_key)/ },
  { find: /one\.instance_key = chosen\.instance_key LIMIT 1/ },
  {
    find: new RegExp(
      String.raw`message\.instance_key = chosen\.instance_key AND visible_at <= ${literally(nowSql)}`,
    ),
  },
  { find: /lock\.ctid = readable\.row_id/ },
  { find: /message\.instance_key = readable\.instance_key AND/ },
];

it('every condition is a fence, or names rows', async () => {
  const texts = recordStatements();
  await run(1);
  const text = texts.get(name) ?? assert.fail(`${name} was not sent`);
  const listed = [...fences, ...selections].flatMap((each) => rangesOf(each, text));
  const conditions = [...text.matchAll(/\b(?:WHERE|AND|ON)\b\s*/g)].map(
    (keyword) => keyword.index + keyword[0].length,
  );
  const unlisted = conditions.filter(
    (place) => !listed.some(([start, end]) => start <= place && place < end),
  );
  expect(unlisted.map((place) => text.slice(place, place + 80))).toEqual([]);
});

it('the single-statement claim claims only the instances that the rule chooses', async () => {
  const { claimed, left, breaches } = await run(500);
  expect(breaches).toEqual([]);
  expect(claimed).toBeGreaterThan(100);
  expect(left).toBeGreaterThan(50);
});

it.each(fences)('a claim that does not demand $demands violates the rule', async (fence) => {
  const sent = applyMutation({ ...fence, statement: name });
  const { breaches } = await run(300);
  expect(sent()).toBeGreaterThan(0);
  expect(breaches).not.toEqual([]);
});

it.each([
  ['pause', /NOT EXISTS \(SELECT FROM \S+\.paused_definitions\)/],
  [
    'limit',
    /NOT EXISTS \(SELECT FROM \S+\.limits(?:(?!kind = 'orchestration'\)).)+kind = 'orchestration'\)/,
  ],
] as const)('claims nothing beside a %s, except without the fence', async (special, find) => {
  expect(await claimBeside(special)).toBe(0);
  applyMutation({ statement: name, find, replace: 'TRUE' });
  expect(await claimBeside(special)).toBe(1);
});
