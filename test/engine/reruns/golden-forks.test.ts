import { afterAll, describe, expect, it } from 'vitest';
import { forkInstance, type ForkOrigin } from '../../../src/management/rerun.ts';
import {
  decodeEvent,
  encodeEvent,
  isIncoming,
  type HistoryEvent,
  type IncomingEvent,
} from '../../../src/model/event.ts';
import { decodeMessage, encodeMessage, type Message } from '../../../src/model/message.ts';
import { keepHistory } from '../../../src/model/kept-history.ts';
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

// Their results contain the time and random numbers, which a fork draws anew after the cut: only their form is equal.
const redrawing = new Set(['time-and-randomness', 'patched-globals']);

/** Creates an instance with a golden history, without its end. */
async function importHistory(
  provider: Provider,
  { name, definition, executionId }: GoldenProgram,
  history: readonly HistoryEvent[],
): Promise<void> {
  const version = definition.version;
  const stored = history.filter(({ kind }) => !isEnd(kind)).map(encodeEvent);
  const start = encodeMessage({ kind: 'start', name, version, payload: null });
  const [first] = stored;
  const firstTurn =
    executionId === 1 || first === undefined
      ? newTurn({ version, events: stored })
      : newTurn({
          version,
          events: [first],
          outcome: { status: 'continuedAsNew', version, start },
        });
  const [result] = await provider.createInstances([
    { instanceId: name, incarnation: 'golden', name, version, inputHash: '', start, firstTurn },
  ]);
  expect(result?.kind).toBe('created');
  if (executionId === 1) return;
  const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs: 60_000, waitMs: 0 });
  if (item === undefined) throw new Error('The next execution is not claimable.');
  expect(item.executionId).toBe(executionId);
  const messageKeys = item.messages.map(({ messageKey }) => messageKey);
  const turn = newTurn({ version, events: stored });
  const [ack] = await provider.ackOrchestrationItems([
    { lockToken: item.lockToken, messageKeys, turn },
  ]);
  expect(ack?.ok).toBe(true);
}

function isEnd(kind: string): boolean {
  return kind.startsWith('execution') && kind !== 'executionStarted';
}

function toMessage(event: IncomingEvent): Message {
  const { at: _, ...fields } = event;
  if (fields.kind === 'eventReceived') return { ...fields, kind: 'eventRaised' };
  if (fields.kind === 'cancelRequested') return { ...fields, kind: 'cancel' };
  if (fields.kind === 'updateAccepted') return { ...fields, kind: 'update' };
  return { ...fields, executionId: 1 };
}

/** Returns the inputs that the last turn did not record: those that its continue-as-new passed on. */
function carriedBy(history: readonly HistoryEvent[]): readonly Message[] {
  const end = history.at(-1);
  if (end?.kind !== 'executionContinuedAsNew') return [];
  const { bufferedEvents, cancel } = keepHistory(history, history.length - 1);
  const carried = (end.carried ?? []).slice(bufferedEvents);
  return [
    ...carried.map((event): Message => ({ kind: 'eventRaised', ...event })),
    ...(end.cancel === undefined || cancel !== undefined
      ? []
      : [{ kind: 'cancel', ...end.cancel } as const]),
  ];
}

/** Returns the recorded inputs after the cut, by turn. The first ones complete the turn of the cut. */
function inputsAfter(history: readonly HistoryEvent[], cut: number): readonly Message[][] {
  const last = history[cut - 1];
  const end = history.at(-1);
  // Inputs of one turn have the same time.
  const turns = new Map<number | undefined, Message[]>([[last?.at, []]]);
  const add = (at: number, message: Message) => turns.set(at, [...(turns.get(at) ?? []), message]);
  for (const event of history.slice(cut).filter(isIncoming)) add(event.at, toMessage(event));
  for (const message of carriedBy(history)) add(end?.at ?? 0, message);
  return [...turns.values()];
}

/** Runs a fork with the recorded inputs of its original after the cut, and returns its end. */
async function finish(
  provider: Provider,
  { definition }: GoldenProgram,
  options: {
    readonly id: string;
    readonly history: readonly HistoryEvent[];
    readonly cut: number;
  },
): Promise<HistoryEvent | undefined> {
  const { id, history, cut } = options;
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
  const [first = [], ...later] = inputsAfter(history, cut);
  const events: HistoryEvent[] = [];
  const nowMs = Math.max(item.nowMs, ...history.map(({ at }) => at));
  const version = definition.version;
  const own = item.messages.map(decodeMessage).filter(({ kind }) => kind === 'wake');
  const firstEventId = copied.length + 1;
  for (const messages of [[...own, ...first], ...later]) {
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
    streamLimitBytes: 1_000_000,
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

// In these, an answer replaces a withdrawal in the same turn. A cut before the answer moves to the start of the turn.
const moved: ReadonlyMap<string, readonly number[]> = new Map([
  ['cancel', [1, 2, 3, 4, 5, 5, 7, 8, 9]],
  ['cancel-with-completions', [1, 2, 3, 4, 4, 4, 4, 8]],
  ['race-with-late-loser', [1, 2, 3, 4, 4, 4, 7]],
]);

const stores: readonly StoreKind[] = ['SQLite', 'PostgreSQL'];

describe.each(stores)('forks of golden histories (%s)', (kind) => {
  const newStore = engineStores(kind);
  const opened: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const close of opened.toReversed()) await close();
  });
  // PostgreSQL: every eighth history, because each fork takes several round trips.
  const chosen = goldenPrograms.filter(
    ({ name }, index) => kind === 'SQLite' || index % 8 === 0 || moved.has(name),
  );

  it.each(chosen)('$name ends as its original after a fork at every event', async (program) => {
    const store = await newStore();
    opened.push(() => store.remove());
    const provider = await store.open();
    const cuts: number[] = [];
    try {
      const history = readHistory(program.name);
      await importHistory(provider, program, history);
      const end = history.findLast(({ kind: one }) => isEnd(one));
      const { length } = history.filter(({ kind: one }) => !isEnd(one));
      for (let from = 1; from <= length; from++) {
        const id = `${program.name}-${from}`;
        const own = { newId: id, from, actor: null, reason: null };
        await forkInstance(provider, { id: program.name, ...own });
        const [fork] = await provider.getInstances([id]);
        const { eventId: cut } = JSON.parse(fork?.forkedFrom ?? '{}') as ForkOrigin;
        cuts.push(cut);
        const isMoved = cut < from && history[cut]?.at === history[from]?.at;
        expect(cut === from || isMoved, `cut after event ${from}`).toBe(true);
        if (isMoved) expect(history[cut - 1]?.at).not.toBe(history[cut]?.at);
        const ended = await finish(provider, program, { id, history, cut });
        const show = redrawing.has(program.name) ? withoutDraws : (one: unknown) => one;
        const original = show(outcomeOf(end, program.name));
        expect(show(outcomeOf(ended, id)), `cut after event ${from}`).toEqual(original);
      }
      expect(cuts).toEqual(moved.get(program.name) ?? cuts);
    } finally {
      await provider.close();
    }
  });
});

/** The outcome without its time and the id of its instance. */
function outcomeOf(event: HistoryEvent | undefined, id: string): unknown {
  if (event === undefined) return undefined;
  const { at: _, ...outcome } = withoutStacks(event);
  return JSON.parse(JSON.stringify(outcome).replaceAll(`'${id}'`, "'id'"));
}

function withoutDraws(outcome: unknown): string {
  return JSON.stringify(outcome)
    .replaceAll(/\b0\.\d+/g, 'random')
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, 'uuid')
    .replaceAll(/\d{4}-[\d-]+T[\d:.]+Z|\b\d{13}\b/g, 'time');
}
