import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isCommand, type HistoryEvent } from '../../src/model/event.ts';
import { silentLogger } from '../../src/model/logger.ts';
import type { Message, StartMessage } from '../../src/model/message.ts';
import type { OrchestrationDefinition } from '../../src/orchestration/orchestration.ts';
import { createProgram } from '../../src/orchestration/program.ts';
import { Execution, type TurnResult } from '../../src/replay/execution.ts';
import { withoutStacks } from '../golden/golden-history.ts';
import { checkHistory } from './check-history.ts';
import { toOrchestration } from './random-program.ts';
import { programs } from './random-steps.ts';
import { RandomWorld, type CancelPlan } from './random-world.ts';

const version = '1';

/** A recorded turn: its messages, its time and the history length before it. */
interface TurnRecord {
  readonly messages: readonly Message[];
  readonly nowMs: number;
  readonly before: number;
}

interface Run {
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  readonly history: readonly HistoryEvent[];
  readonly turns: readonly TurnRecord[];
  /** The keys of updates with a reply. */
  readonly replied: readonly string[];
  readonly carriedUpdates: readonly Message[];
}

function create(definition: OrchestrationDefinition, executionId: number): Execution {
  return new Execution({
    instanceId: 'random',
    incarnation: 'i',
    executionId,
    program: createProgram(definition, { log: silentLogger }),
  });
}

async function replayed(
  { definition, executionId }: Pick<Run, 'definition' | 'executionId'>,
  history: readonly HistoryEvent[],
): Promise<Execution> {
  const execution = create(definition, executionId);
  await execution.replay(history);
  return execution;
}

/** Removes stacks, which differ with the caller of the engine, and tokens, which are random. */
function comparable(event: HistoryEvent): HistoryEvent {
  const known = withoutStacks(event);
  return known.kind === 'awakeableCreated' ? { ...known, payload: '"token"' } : known;
}

function withoutAllStacks(result: TurnResult): TurnResult {
  return { ...result, events: result.events.map(comparable) };
}

/** Returns the keys of the updates that a turn replied to. */
function repliesOf({ events, rejections = [] }: TurnResult): readonly string[] {
  return [
    ...rejections.map(({ key }) => key),
    ...events.flatMap((event) =>
      event.kind === 'updateCompleted' || event.kind === 'updateFailed' ? [event.key] : [],
    ),
  ];
}

/** Each update gets at most one reply; after a continue-as-new, exactly one, or the next execution gets it. */
function checkReplies({ history, turns, replied, carriedUpdates }: Run): void {
  expect(new Set(replied).size).toBe(replied.length);
  if (history.at(-1)?.kind !== 'executionContinuedAsNew') return;
  const keys = (messages: readonly Message[]) =>
    messages.flatMap((message) => (message.kind === 'update' ? [message.key] : []));
  const sent = turns.flatMap(({ messages }) => keys(messages));
  expect([...replied, ...keys(carriedUpdates)].toSorted()).toEqual(sent.toSorted());
}

/** Returns the kinds of the events, and `deferredUpdate` for each update that arrived while a continue-as-new waited. */
function kindsOf({ history, carriedUpdates }: Run): readonly string[] {
  const carried = new Set(carriedUpdates.map((message) => 'key' in message && message.key));
  return history.flatMap((event) =>
    event.kind === 'updateAccepted' && carried.has(event.key)
      ? [event.kind, 'deferredUpdate']
      : [event.kind],
  );
}

/** Runs an execution warm and, before every turn, replayed from scratch. Both must return the same result. */
async function runExecution(params: {
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  readonly world: RandomWorld;
  readonly start: readonly Message[];
}): Promise<Run> {
  const { definition, executionId, world, start } = params;
  const warm = create(definition, executionId);
  const history: HistoryEvent[] = [];
  const turns: TurnRecord[] = [];
  const replied: string[] = [];
  let carriedUpdates: readonly Message[] = [];
  let messages: readonly Message[] = [...start, ...world.firstMessages()];
  while (!warm.ended) {
    expect(turns.length).toBeLessThan(500);
    const cold = await replayed(params, history);
    const turn = { messages, nowMs: world.nowMs, version };
    const result = await warm.turn(turn);
    expect(withoutAllStacks(await cold.turn(turn))).toEqual(withoutAllStacks(result));
    turns.push({ messages, nowMs: world.nowMs, before: history.length });
    history.push(...result.events);
    replied.push(...repliesOf(result));
    carriedUpdates = result.carriedUpdates ?? [];
    world.observe(result.events, warm.pendingSteps);
    // An execution that has not ended has a pending operation.
    if (!warm.ended) expect(world.isIdle).toBe(false);
    messages = world.nextMessages();
  }
  return { definition, executionId, history, turns, replied, carriedUpdates };
}

/** Replays the history before a turn and runs the recorded turns from there. */
async function continueFrom(run: Run, first: number): Promise<void> {
  const { history, turns } = run;
  const continued = history.slice(0, turns[first]?.before);
  const execution = await replayed(run, continued);
  for (const { messages, nowMs } of turns.slice(first)) {
    const { events } = await execution.turn({ messages, nowMs, version });
    continued.push(...events);
  }
  expect(continued.map(comparable)).toEqual(history.map(comparable));
}

/** Cuts a history at every event. A cut between turns continues equally; a cut inside a turn is detected. */
async function checkCuts(run: Run): Promise<void> {
  const { history, turns } = run;
  for (let index = 1; index < turns.length; index++) await continueFrom(run, index);
  for (let cut = 1; cut < history.length; cut++) {
    const next = history[cut];
    // Code at the place of a missing patch marker is that of an older execution.
    if (next === undefined || !isCommand(next) || next.kind === 'patchMarked') continue;
    const execution = await replayed(run, history.slice(0, cut));
    expect(() => execution.assertReplayed()).toThrow(
      expect.objectContaining({ code: 'NONDETERMINISM', eventId: cut + 1 }),
    );
  }
  expect((await replayed(run, history)).ended).toBe(true);
}

const plans: fc.Arbitrary<CancelPlan> = fc.record({
  inTurn: fc.oneof(fc.constant(undefined), fc.nat(2), fc.nat(2), fc.nat(8)),
  expiresAfter: fc.oneof(fc.constant(undefined), fc.constant(undefined), fc.nat(4)),
});

async function runProgram(
  program: Parameters<typeof toOrchestration>[0],
  seed: number,
  plan: CancelPlan,
): Promise<readonly Run[]> {
  const definition = toOrchestration(program);
  const runs: Run[] = [];
  const settings = { headers: { tenant: 'seven' }, priority: 3 };
  let start: StartMessage = {
    kind: 'start',
    name: 'random',
    version: null,
    payload: '1',
    ...settings,
  };
  let carriedUpdates: readonly Message[] = [];
  for (let executionId = 1; executionId <= program.rounds; executionId++) {
    const world = new RandomWorld(seed, executionId, plan);
    const messages = [start, ...carriedUpdates];
    const run = await runExecution({ definition, executionId, world, start: messages });
    runs.push(run);
    ({ carriedUpdates } = run);
    const last = run.history.at(-1);
    if (last?.kind !== 'executionContinuedAsNew') break;
    const { payload, carried, cancel, state } = last;
    start = {
      kind: 'start',
      name: 'random',
      version: null,
      payload,
      ...settings,
      ...(carried !== undefined && { carried }),
      ...(cancel !== undefined && { cancel }),
      ...(state !== undefined && { state }),
    };
  }
  return runs;
}

const numRuns = Number(process.env['PERDURE_RANDOM_RUNS'] ?? 400);

describe('random programs', () => {
  it('random programs produce the same history warm, replayed cold and cut at any event', async () => {
    const kinds = new Map<string, number>();
    // Each kind of event must occur often enough for the check to be meaningful.
    const mustOccur = [
      'cancelRequested',
      'operationWithdrawn',
      'activityCanceled',
      'stepCompleted',
      'stepFailed',
      'childScheduled',
      'stepRetried',
      'patchMarked',
      'childCanceled',
      'executionCanceled',
      'executionCompleted',
      'executionContinuedAsNew',
      'awakeableCreated',
      'awakeableResolved',
      'awakeableRejected',
      'updateAccepted',
      'updateCompleted',
      'updateFailed',
      'deferredUpdate',
      'stateSet',
      'tagsSet',
      'chunkEmitted',
      'detachedStarted',
    ];
    const isRare = (kind: string): boolean => (kinds.get(kind) ?? 0) < numRuns / 20;
    // Rare kinds may need more programs.
    for (let round = 0; round < 8 && (round === 0 || mustOccur.some(isRare)); round += 1) {
      await fc.assert(
        fc.asyncProperty(programs, fc.nat(), plans, async (program, seed, plan) => {
          for (const run of await runProgram(program, seed, plan)) {
            checkHistory(
              run.history,
              run.turns.flatMap(({ messages }) => messages),
            );
            for (const kind of kindsOf(run)) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
            checkReplies(run);
            await checkCuts(run);
          }
        }),
        { numRuns },
      );
    }
    expect(mustOccur.filter(isRare)).toEqual([]);
  }, 120_000);
});
