import { afterAll, describe, expect, it } from 'vitest';
import { forkInstance } from '../../../src/management/rerun.ts';
import {
  decodeEvent,
  encodeEvent,
  isIncoming,
  type HistoryEvent,
  type IncomingEvent,
} from '../../../src/model/event.ts';
import { decodeMessage, encodeMessage, type Message } from '../../../src/model/message.ts';
import { silentLogger } from '../../../src/model/logger.ts';
import { installDeterministicGlobals } from '../../../src/orchestration/deterministic-globals.ts';
import { createProgram } from '../../../src/orchestration/program.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { Execution } from '../../../src/replay/execution.ts';
import { toTurn } from '../../../src/runtime/turns/turn-effects.ts';
import { newTurn } from '../../../src/testing/conformance/sample-data.ts';
import type { GoldenProgram } from '../../golden/golden-program.ts';
import { readHistory, withoutStacks } from '../../golden/golden-history.ts';
import { goldenPrograms } from '../../golden/golden-programs.ts';
import { engineStores, type StoreKind } from '../engine-store.ts';

installDeterministicGlobals();

// The histories of later executions need an execution before, which the copied instance does not have.
// A stray await depends on I/O, so its replay does not reproduce it. The results of the other two contain the time and
// random numbers after the cut, which a fork draws anew.
// In the last four, an operation was answered in the batch that withdrew it. A cut between the two leaves the answer out, so
// the fork withdraws the operation and may end differently.
const excluded = new Set([
  'stray-await',
  'time-and-randomness',
  'patched-globals',
  'cancel',
  'cancel-with-completions',
  'cancel-too-late',
  'race-with-late-loser',
]);
const programs = goldenPrograms.filter(
  ({ name, executionId }) => executionId === 1 && !excluded.has(name),
);

/** Creates an instance with a golden history, without its end. */
async function importHistory(
  provider: Provider,
  { name, definition }: GoldenProgram,
  history: readonly HistoryEvent[],
): Promise<void> {
  const version = definition.version;
  const events = history.filter(({ kind }) => kind === 'executionStarted' || !isEnd(kind));
  const firstTurn = newTurn({ version, events: events.map(encodeEvent) });
  const start = encodeMessage({ kind: 'start', name, version, payload: null });
  const [result] = await provider.createInstances([
    { instanceId: name, incarnation: 'golden', name, version, inputHash: '', start, firstTurn },
  ]);
  expect(result?.kind).toBe('created');
}

function isEnd(kind: string): boolean {
  return kind.startsWith('execution') && kind !== 'executionStarted';
}

function toMessage(event: IncomingEvent): Message {
  const { at: _, ...fields } = event;
  if (fields.kind === 'eventReceived') return { ...fields, kind: 'eventRaised' };
  if (fields.kind === 'cancelRequested') return { ...fields, kind: 'cancel' };
  return { ...fields, executionId: 1 };
}

/** Runs a fork with the recorded inputs of its original after the cut, and returns its end. */
async function finish(
  provider: Provider,
  { definition }: GoldenProgram,
  { id, rest }: { readonly id: string; readonly rest: readonly HistoryEvent[] },
): Promise<HistoryEvent | undefined> {
  const claimed = await provider.fetchOrchestrationItems({ max: 10, lockMs: 60_000, waitMs: 0 });
  const item = claimed.find(({ instanceId }) => instanceId === id);
  if (item === undefined) throw new Error('The fork is not claimable.');
  const [stored = []] = await provider.readHistory([{ ...item, after: 0 }]);
  const execution = new Execution({
    instanceId: id,
    incarnation: item.incarnation,
    executionId: 1,
    program: createProgram(definition, { log: silentLogger }),
  });
  const copied = stored.map(decodeEvent);
  await execution.replay(copied);
  // Inputs of one turn have the same time.
  const inputs = [...Map.groupBy(rest.filter(isIncoming), ({ at }) => at).values()];
  const events: HistoryEvent[] = [];
  const nowMs = Math.max(item.nowMs, ...rest.map(({ at }) => at));
  const version = definition.version;
  const own = item.messages.map(decodeMessage).filter(({ kind }) => kind === 'wake');
  const firstEventId = copied.length + 1;
  for (const messages of [own, ...inputs.map((turn) => turn.map(toMessage))]) {
    if (execution.ended) break;
    const result = await execution.turn({ messages, nowMs, version });
    events.push(...result.events);
  }
  if (!execution.ended && execution.isCanceling) {
    const expired: Message = { kind: 'cleanupExpired', reason: 'test' };
    events.push(...(await execution.turn({ messages: [expired], nowMs, version })).events);
  }
  const turn = toTurn({
    subject: { instanceId: id, executionId: 1, name: definition.name, version, parent: null },
    firstEventId,
    events,
    claimMs: () => undefined,
    worker: 'golden',
    cleanupMs: 1_000,
  });
  const { lockToken, messages } = item;
  const [ack] = await provider.ackOrchestrationItems([
    { lockToken, messageKeys: messages.map(({ messageKey }) => messageKey), turn },
  ]);
  expect(ack?.ok).toBe(true);
  execution.dispose();
  // The complete history of the fork replays, as a worker would do after a crash.
  const again = new Execution({
    instanceId: id,
    incarnation: item.incarnation,
    executionId: 1,
    program: createProgram(definition, { log: silentLogger }),
  });
  const [whole = []] = await provider.readHistory([{ ...item, after: 0 }]);
  await again.replay(whole.map(decodeEvent));
  again.assertReplayed();
  again.dispose();
  return events.findLast(({ kind }) => isEnd(kind));
}

const stores: readonly StoreKind[] = ['SQLite', 'PostgreSQL'];

describe.each(stores)('forks of golden histories (%s)', (kind) => {
  const newStore = engineStores(kind);
  const opened: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const close of opened.toReversed()) await close();
  });
  // PostgreSQL: every eighth history, because each fork takes several round trips.
  const chosen = kind === 'SQLite' ? programs : programs.filter((_, index) => index % 8 === 0);

  it.each(chosen)('$name ends as its original after a fork at every event', async (program) => {
    const store = await newStore();
    opened.push(() => store.remove());
    const provider = await store.open();
    try {
      const history = readHistory(program.name);
      await importHistory(provider, program, history);
      const end = history.findLast(({ kind: one }) => isEnd(one));
      const { length } = history.filter(({ kind: one }) => !isEnd(one));
      for (let from = 1; from <= length; from++) {
        const id = `${program.name}-${from}`;
        const own = { newId: id, from, actor: null, reason: null };
        await forkInstance(provider, { id: program.name, ...own });
        const rest = history.slice(from);
        const ended = await finish(provider, program, { id, rest });
        expect(outcomeOf(ended), `cut after event ${from}`).toEqual(outcomeOf(end));
      }
    } finally {
      await provider.close();
    }
  });
});

/** The outcome without its time, and without the clean-up limit that ends a cancel without new inputs. */
function outcomeOf(event: HistoryEvent | undefined): unknown {
  if (event === undefined) return undefined;
  const { at: _, ...outcome } = withoutStacks(event);
  return outcome;
}
