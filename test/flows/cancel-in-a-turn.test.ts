import { describe, expect, it } from 'vitest';
import { flow, type FlowDefinition } from 'perdure/flows';
import { TurnDriver } from '../replay/turn-driver.ts';

/** Starts a run of a flow, up to its first running steps. */
async function begin(definition: FlowDefinition<undefined>): Promise<TurnDriver> {
  const run = new TurnDriver(definition.orchestration);
  await run.start({ flow: definition.graph });
  return run;
}

const one = flow('one')
  .step('a', () => 'a')
  .output();
const waiting = flow('waiting')
  .step('a', { cancellation: 'wait' }, () => 'a')
  .output();
const items = flow('items')
  .step('a', () => ['x', 'y'])
  .map('b', { over: ({ a }) => a }, () => 'b')
  .output();

describe('a step outcome in the same turn as the cancel of its run', () => {
  it.each([
    { what: 'returns', answer: { output: 'late' } },
    { what: 'completes the flow early', answer: { early: true, output: 'late', reason: 'enough' } },
  ])('a step that $what after the cancel leaves its run canceled', async ({ answer }) => {
    const run = await begin(one);
    await run.turn(run.cancel('no more'), run.completed(1, answer));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'no more' });
  });

  it('a step that fails after the cancel leaves its run canceled', async () => {
    const run = await begin(one);
    await run.turn(run.cancel('no more'), run.failed(1));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'no more' });
  });

  it('a last map item that completes after the cancel leaves its run canceled', async () => {
    const run = await begin(items);
    await run.turn(run.completed(1, { output: ['x', 'y'] }));
    await run.turn(run.completed(2, { output: 'b' }));
    await run.turn(run.cancel('no more'), run.completed(3, { output: 'b' }));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'no more' });
  });

  it('a step result before the cancel, or with cancellation wait, completes the run', async () => {
    const before = await begin(one);
    await before.turn(before.completed(1, { output: 'in time' }), before.cancel());
    expect(before.output).toBe('in time');
    const waits = await begin(waiting);
    await waits.turn(waits.cancel(), waits.completed(1, { output: 'kept' }));
    expect(waits.output).toBe('kept');
  });
});
