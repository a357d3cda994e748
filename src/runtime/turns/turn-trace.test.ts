import { expect, it } from 'vitest';
import type { TracedInstance } from '../../model/telemetry.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import { traceTurn } from './turn-trace.ts';
import type { WarmInstance } from './warm-instance.ts';

it('the end of an instance that was not replayed has times', () => {
  const ended: TracedInstance[] = [];
  const instance = {
    instanceId: 'i',
    executionId: 1,
    name: 'poisoned',
    version: '1',
    trace: undefined,
    execution: { startedAt: Number.NaN },
  } as WarmInstance;
  const turn = { events: [], outcome: { status: 'canceled' } } as unknown as Turn;
  traceTurn(
    {
      call: () => ({ trace: undefined, end: () => undefined }),
      attempt: () => ({ ids: undefined, run: (handler) => handler(), end: () => undefined }),
      turn: () => undefined,
      ended: (one) => void ended.push(one),
    },
    instance,
    turn,
    { path: 'slow', beganAt: 1, endedAt: 2 },
  );
  const [{ startedAt, endedAt } = { startedAt: 0, endedAt: 1 }] = ended;
  expect(startedAt).toBe(endedAt);
});
