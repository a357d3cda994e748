import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isIncoming,
  type BufferedEvent,
  type HistoryEvent,
  type IncomingEvent,
} from '../../src/model/event.ts';
import { silentLogger } from '../../src/model/logger.ts';
import type { Message } from '../../src/model/message.ts';
import type { OrchestrationDefinition } from '../../src/orchestration/orchestration.ts';
import { createProgram } from '../../src/orchestration/program.ts';
import { Execution } from '../../src/replay/execution.ts';
import { programs, toOrchestration } from './random-program.ts';
import { RandomWorld } from './random-world.ts';

const version = '1';

function create(definition: OrchestrationDefinition, executionId: number): Execution {
  return new Execution({
    instanceId: 'random',
    incarnation: 'i',
    executionId,
    program: createProgram(definition, { log: silentLogger }),
  });
}

async function replayed(
  definition: OrchestrationDefinition,
  executionId: number,
  history: readonly HistoryEvent[],
): Promise<Execution> {
  const execution = create(definition, executionId);
  await execution.replay(history);
  return execution;
}

/** Runs an execution twice at once, warm and replayed from scratch before every turn; both must decide the same. */
async function runExecution(params: {
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  readonly seed: number;
  readonly start: Message;
}): Promise<readonly HistoryEvent[]> {
  const { definition, executionId, seed, start } = params;
  const world = new RandomWorld(seed, executionId);
  const warm = create(definition, executionId);
  const history: HistoryEvent[] = [];
  let messages: readonly Message[] = [start];
  for (let turns = 0; !warm.ended; turns++) {
    expect(turns).toBeLessThan(500);
    const cold = await replayed(definition, executionId, history);
    const params = { messages, nowMs: world.nowMs, version };
    const result = await warm.turn(params);
    expect(await cold.turn(params)).toEqual(result);
    history.push(...result.events);
    world.observe(result.events);
    messages = world.nextMessages();
  }
  return history;
}

const toMessage = (event: IncomingEvent, executionId: number): Message => {
  const { at: _, ...rest } = event;
  if (rest.kind === 'eventReceived') return { ...rest, kind: 'eventRaised' };
  return rest.kind === 'cancelRequested' ? { ...rest, kind: 'cancel' } : { ...rest, executionId };
};

const withoutCarried = (event: HistoryEvent | undefined): unknown =>
  event?.kind === 'executionContinuedAsNew' ? { ...event, carried: undefined } : event;

/** Cuts a history before an incoming event, replays what is before, and lives through the rest one by one. */
async function continueFrom(params: {
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  readonly history: readonly HistoryEvent[];
  readonly cut: number;
}): Promise<void> {
  const { definition, executionId, history, cut } = params;
  const execution = await replayed(definition, executionId, history.slice(0, cut));
  const continued = history.slice(0, cut);
  for (const event of history.slice(cut)) {
    if (!isIncoming(event)) continue;
    const messages = [toMessage(event, executionId)];
    const { events } = await execution.turn({ messages, nowMs: event.at, version });
    continued.push(...events);
  }
  expect(continued.map(withoutCarried)).toEqual(history.map(withoutCarried));
}

async function checkCuts(
  definition: OrchestrationDefinition,
  executionId: number,
  history: readonly HistoryEvent[],
): Promise<void> {
  for (let cut = 1; cut < history.length; cut++) {
    const next = history[cut];
    if (next === undefined) continue;
    if (isIncoming(next)) {
      await continueFrom({ definition, executionId, history, cut });
    } else {
      // In the middle of a reaction: the code has already done more than this history records.
      const execution = await replayed(definition, executionId, history.slice(0, cut));
      expect(() => execution.assertReplayed()).toThrow(
        expect.objectContaining({ code: 'NONDETERMINISM', eventId: cut + 1 }),
      );
    }
  }
}

describe('random programs', () => {
  it('decide the same warm, replayed cold before every turn, and cut at every event', async () => {
    let events = 0;
    await fc.assert(
      fc.asyncProperty(programs, fc.nat(), async (program, seed) => {
        const definition = toOrchestration(program);
        let input = '1';
        let carried: readonly BufferedEvent[] | undefined;
        for (let executionId = 1; executionId <= program.rounds; executionId++) {
          const start: Message = {
            kind: 'start',
            name: 'random',
            version: null,
            payload: input,
            ...(carried !== undefined && { carried }),
          };
          const history = await runExecution({ definition, executionId, seed, start });
          events += history.length;
          await checkCuts(definition, executionId, history);
          const last = history.at(-1);
          expect(last?.kind).toBe(
            executionId < program.rounds ? 'executionContinuedAsNew' : 'executionCompleted',
          );
          if (last?.kind !== 'executionContinuedAsNew') break;
          input = last.payload ?? '';
          carried = last.carried;
        }
      }),
      { numRuns: Number(process.env['PERDURE_RANDOM_RUNS'] ?? 300) },
    );
    // Programs that do nothing would prove nothing.
    expect(events).toBeGreaterThan(2_000);
  }, 120_000);
});
