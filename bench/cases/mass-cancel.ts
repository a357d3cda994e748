import { randomUUID } from 'node:crypto';
import type { Provider } from 'perdure';
import type { Turn } from 'perdure/provider';
import { check, median, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { countQueries } from '../query-count.ts';
import { countStatements } from '../statement-count.ts';
import { openProvider } from '../store-kind.ts';

/** Whether the activities are queued or running when they are canceled. */
type State = 'queued' | 'running';

interface Measured {
  readonly ms: number;
  readonly statements: number;
}

/** A provider, and the number of statements it has run. */
interface Watched {
  readonly provider: Provider;
  readonly statements: () => number;
}

const lockMs = 60_000;

/** Cancels many activities in one ack, compared with the ack that enqueued them. */
export async function massCancel({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const watched = await openWatched(store);
  const rounds = quick ? 3 : 9;
  const size = 2_000;
  const queued: Ratio[] = [];
  const running: Ratio[] = [];
  for (let round = 0; round <= rounds; round++) {
    queued.push(await cancelMany(watched, size, 'queued'));
    running.push(await cancelMany(watched, size, 'running'));
  }
  const few = await cancelMany(watched, 20, 'running');
  await watched.provider.close();
  const most = Math.max(...[...queued, ...running].map(({ canceled }) => canceled.statements));
  // The first of each warms up the compiler.
  const [q, r] = [queued.slice(1), running.slice(1)];
  return {
    enqueueMs: median([...q, ...r].map(({ enqueued }) => enqueued.ms)),
    cancelQueuedMs: median(q.map(({ canceled }) => canceled.ms)),
    cancelRunningMs: median(r.map(({ canceled }) => canceled.ms)),
    queuedRatio: median(q.map(ratioOf)),
    runningRatio: median(r.map(ratioOf)),
    statements: most,
    moreStatements: most - few.canceled.statements,
  };
}

/** Counters patch the drivers before a store is opened, in this case only. */
async function openWatched(store: string): Promise<Watched> {
  const count = countStatements();
  const queries = countQueries();
  return {
    provider: await openProvider(store),
    statements: () => count() + queries().statements,
  };
}

interface Ratio {
  readonly enqueued: Measured;
  readonly canceled: Measured;
}

function ratioOf({ enqueued, canceled }: Ratio): number {
  return canceled.ms / enqueued.ms;
}

async function cancelMany(watched: Watched, size: number, state: State): Promise<Ratio> {
  const { provider } = watched;
  const instanceId = randomUUID();
  const operations = Array.from({ length: size }, (_, index) => index + 1);
  await create(provider, instanceId);
  const enqueued = await takeTurn(watched, {
    firstEventId: 1,
    events: [
      stored('executionStarted', { name: 'wide', version: '1' }),
      ...operations.map((operation) => stored('activityScheduled', { operation, name: 'hold' })),
    ],
    workItems: operations.map((operation) => ({
      operation,
      name: 'hold',
      payload: '{"n":1}',
      options: null,
      cancellation: 'request',
      shielded: false,
    })),
  });
  const claimed =
    state === 'queued'
      ? []
      : await provider.fetchWorkItems({ max: size, lockMs, waitMs: 0, names: ['hold'] });
  check(claimed.length === (state === 'queued' ? 0 : size), 'claims');
  const message = { kind: 'wake', executionId: null, operation: null, data: '{}', payload: null };
  await provider.enqueueMessages([{ instanceId, message }]);
  const why = { reason: 'race_lost', trigger: 'race_lost' } as const;
  const canceled = await takeTurn(watched, {
    firstEventId: size + 2,
    events: operations.map((target) =>
      stored('operationWithdrawn', { target, targetKind: 'activity', ...why }),
    ),
    activityCancels: operations.map((operation) => ({ operation, ...why })),
  });
  await confirm(provider, claimed, state);
  await provider.terminate([{ instanceId, reason: 'measured', actor: null, tree: false }]);
  return { enqueued, canceled };
}

/** Checks that queued activities are deleted and running ones are flagged. */
async function confirm(
  provider: Provider,
  claimed: readonly { readonly lockToken: string }[],
  state: State,
): Promise<void> {
  if (state === 'queued') {
    const left = await provider.fetchWorkItems({ max: 1, lockMs, waitMs: 0, names: ['hold'] });
    check(left.length === 0, 'queued activities are gone');
    return;
  }
  const renewed = await provider.renewWorkItemLocks(claimed, lockMs);
  check(
    renewed.every((each) => each.held && each.cancel !== null),
    'running activities are told',
  );
  const outcome = { kind: 'canceled', leaked: false } as const;
  await provider.ackWorkItems(claimed.map(({ lockToken }) => ({ lockToken, outcome })));
}

async function create(provider: Provider, instanceId: string): Promise<void> {
  const start = {
    kind: 'start',
    executionId: null,
    operation: null,
    data: '{"name":"wide","version":"1"}',
    payload: null,
  };
  await provider.createInstances([
    { instanceId, incarnation: instanceId, name: 'wide', version: '1', inputHash: '', start },
  ]);
}

/** Claims the instance that has messages and acks a turn: the time and the statements of the ack. */
async function takeTurn(
  { provider, statements }: Watched,
  turn: Partial<Turn> & Pick<Turn, 'firstEventId' | 'events'>,
): Promise<Measured> {
  const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs, waitMs: 0 });
  if (item === undefined) throw new Error('No instance has messages.');
  const whole: Turn = {
    turnId: randomUUID(),
    version: '1',
    workItems: [],
    timers: [],
    children: [],
    messages: [],
    activityCancels: [],
    childCancels: [],
    cleanupMs: 0,
    timerWithdrawals: [],
    outcome: { status: 'running' },
    ...turn,
  };
  const messageKeys = item.messages.map(({ messageKey }) => messageKey);
  const [before, begun] = [statements(), performance.now()];
  const [result] = await provider.ackOrchestrationItems([
    { lockToken: item.lockToken, messageKeys, turn: whole },
  ]);
  const measured = { ms: performance.now() - begun, statements: statements() - before };
  check(result?.ok === true, 'an ack');
  return measured;
}

function stored(kind: string, data: object): Turn['events'][number] {
  return { kind, at: Date.now(), data: JSON.stringify(data), payload: null };
}
