import { expect, it } from 'vitest';
import type { OrchestrationItem } from '../../src/providers/contract/orchestration-queue.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { Turn, TurnOutcome } from '../../src/providers/contract/turn.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import {
  activityCancel,
  child,
  event,
  newInstance,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { randomFrom } from './helpers/random.ts';
import { StoreTwin } from './helpers/store-twin.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const operations = 250;
const ids = ['a', 'b', 'c', 'd', 'e', 'f'];

/** A turn that depends only on the dice and the instance. */
function turnOf(item: OrchestrationItem, dice: readonly number[], now: number): Turn {
  const [kind = 0, a = 0, b = 0, c = 0] = dice;
  const { historyLength, instanceId, executionId } = item;
  const base = historyLength * 10 + executionId * 1_000;
  const outcomes: readonly TurnOutcome[] = [
    { status: 'completed', payload: '"done"' },
    { status: 'failed', failure: '{"name":"Error","message":"x"}' },
    { status: 'canceled', reason: 'stopped', cleanupSkipped: false },
    { status: 'continuedAsNew', version: '1', start: startMessage() },
  ];
  const cancellations = ['request', 'wait', 'abandon'] as const;
  const cancellation = cancellations[c % 3] ?? 'request';
  return newTurn({
    turnId: `${instanceId} ${executionId} ${historyLength}`,
    firstEventId: kind === 9 ? historyLength : historyLength + 1,
    events: [event(`turn ${historyLength}`)],
    workItems: Array.from({ length: a % 4 }, (_, n) =>
      workItem(base + n, { cancellation, shielded: b % 5 === 0 }),
    ),
    timers: b % 3 === 0 ? [{ operation: base + 5, fireAt: now + 500 + b }] : [],
    timerWithdrawals: c % 4 === 0 ? [base - 5] : [],
    children:
      a % 5 === 0
        ? [
            child(`${instanceId}${c % 4}`, base + 6, {
              incarnation: `of ${base}`,
              cancellation,
              shielded: b % 7 === 0,
            }),
          ]
        : [],
    messages:
      b % 4 === 0
        ? [{ instanceId: ids[c % ids.length] ?? 'a', message: raised(`from ${instanceId}`) }]
        : [],
    activityCancels: c % 3 === 0 ? [activityCancel(base - 9), activityCancel(base - 10)] : [],
    childCancels: b % 6 === 0 ? [{ instanceId: `${instanceId}${a % 4}`, reason: 'no' }] : [],
    ...(a % 3 === 0 && { customStatus: `"${c}"` }),
    // Many turns continue as new, so that there are executions to prune.
    outcome: (kind < 8 ? outcomes[Math.min(kind, 3)] : undefined) ?? { status: 'running' },
  });
}

it.each([1, 2, 3, 4])(
  'PostgreSQL and SQLite return the same for random operations (seed %i)',
  async (seed) => {
    const clock = new FakeClock();
    const { open } = await temporaryStore();
    const sqlite = new StoreTwin(await openSqlite({ path: ':memory:', clock }));
    const postgres = new StoreTwin(await open({ clock, listen: false }));
    const random = randomFrom(seed);
    const both = async (what: string, run: (twin: StoreTwin) => Promise<unknown>) => {
      const [expected, answer] = [await run(sqlite), await run(postgres)];
      expect({ what, answer }).toEqual({ what, answer: expected });
    };
    const anId = () => ids[random(ids.length)] ?? 'a';
    const someId = () => (random(2) === 0 ? anId() : `${anId()}${random(4)}`);
    const aKnownId = async () => {
      const { instances: known } = await sqlite.provider.listInstances({
        filter: {},
        limit: 1_000,
      });
      // Instances with many executions first: they have something to prune.
      const ordered = known.toSorted((a, b) => b.executionId - a.executionId);
      return ordered[random(random(2) === 0 ? 3 : 20)]?.instanceId ?? anId();
    };
    // Mostly a recent claim, sometimes an old one.
    const place = (count: number) => Math.max(0, count - 1 - random(random(5) === 0 ? 20 : 4));

    for (let step = 0; step < operations; step += 1) {
      const now = clock.now();
      const dice = [random(24), random(60), random(60), random(60)] as const;
      const stop = { reason: `step ${step}`, actor: null, cleanupMs: 100 + random(2_000) };
      const [first, second, third] = [someId(), someId(), await aKnownId()];
      const claims = [place(sqlite.claimCount), place(sqlite.claimCount)];
      const work = [place(sqlite.workCount), place(sqlite.workCount)];
      const leaked = random(4) === 0;
      const move = random(20);
      switch (move) {
        case 0:
          await both(`create ${first}`, ({ provider }) =>
            provider
              .createInstances([newInstance(first, { incarnation: `i${step}` })])
              .then((results) => results.map(({ kind }) => kind)),
          );
          break;
        case 1:
          await both(`raise ${first} ${second}`, ({ provider }) =>
            provider.enqueueMessages([
              { instanceId: first, message: raised(`step ${step}`), maxPending: 4 },
              { instanceId: second, message: raised(`step ${step}`) },
            ]),
          );
          break;
        case 2:
          await both(`cancel ${first} ${second}`, ({ provider }) =>
            provider.requestCancel([
              { instanceId: first, ...stop },
              { instanceId: second, ...stop },
            ]),
          );
          break;
        case 3:
          if (random(3) > 0) break;
          await both(`terminate ${first}`, ({ provider }) =>
            provider.terminate([{ instanceId: first, ...stop, tree: leaked }]),
          );
          break;
        case 4:
          await both('work is tried again', (twin) => twin.retryWork(work[0] ?? 0, 300));
          break;
        case 5:
          await both('work is renewed', (twin) => twin.renewWork(work));
          break;
        case 6:
          await both('a point of no return', (twin) => twin.markPointOfNoReturn(work[0] ?? 0));
          break;
        case 7:
          await both('an instance is abandoned', (twin) =>
            twin.abandon(claims[0] ?? 0, dice[1] * 10, leaked ? 'build 1' : undefined),
          );
          break;
        case 8:
          await clock.advance(dice[1] * 60);
          break;
        case 9:
        case 10:
          await both('work is settled', (twin) =>
            twin.ackWork(
              work,
              leaked ? { kind: 'canceled', leaked } : { kind: 'completed', payload: `${step}` },
            ),
          );
          break;
        case 11:
          await both('work is fetched', (twin) => twin.fetchWork(1 + (dice[2] % 5)));
          break;
        case 12:
        case 13:
          await both('instances are fetched', (twin) =>
            twin.fetch(1 + (dice[2] % 4), `build ${dice[3] % 2}`),
          );
          break;
        case 14:
          if (random(2) > 0) break;
          await both(`delete ${third} ${second}`, (twin) =>
            twin.delete([third, second], {
              force: dice[0] % 2 === 0,
              isWhole: dice[1] % 3 > 0,
              dryRun: dice[2] % 5 === 0,
            }),
          );
          break;
        case 15:
          await both(`prune ${third} ${second}`, (twin) =>
            twin.prune([third, second, third], {
              max: 1 + (dice[0] % 3),
              ...(leaked ? { endedBefore: now - dice[1] * 60 } : { keepLast: dice[2] % 4 }),
              dryRun: dice[3] % 5 === 0,
            }),
          );
          break;
        case 16:
          await both('a walk', (twin) =>
            twin.scan({
              maxScanned: 1 + (dice[0] % 5),
              ...(dice[1] % 2 === 0 && { statuses: ['running', 'completed', 'canceled'] }),
              ...(dice[1] % 3 === 0 && { endedBefore: now - dice[2] * 60 }),
              ...(dice[1] % 5 === 0 && { createdBefore: now - dice[2] * 60 }),
              rootsOnly: dice[3] % 2 === 0,
              withFinishedExecutions: dice[3] % 3 === 0,
            }),
          );
          break;
        default:
          await both('turns are acked', (twin) =>
            twin.ack(claims[0] === claims[1] ? claims.slice(1) : claims, (item) =>
              turnOf(item, dice, now),
            ),
          );
      }
      if (step % 10 !== 9) continue;
      await both(`the state after step ${step}`, (twin) => twin.snapshot());
      await both(`the figures after step ${step}`, (twin) => twin.metrics());
    }
    await sqlite.provider.close();
  },
  120_000,
);
