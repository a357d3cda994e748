import { event, type Client } from 'perdure';
import { flow, gt, signalFlow, type FlowDefinition } from 'perdure/flows';

/** A flow with a recorded history, which every later interpreter must replay. */
export interface RecordedFlow {
  readonly name: string;
  readonly definition: FlowDefinition<never>;
  readonly input: unknown;
  /** Client calls during the run. */
  readonly during?: (client: Client, id: string) => Promise<unknown>;
}

const everything = flow('everything')
  .input<{ readonly lines: readonly number[] }>()
  .map('double', { over: ({ input }) => input.lines, concurrency: 2 }, (_ctx, n) => n * 2)
  .reduce('sum', { over: ({ double }) => double, initial: 0, batch: 2 }, (_ctx, sum, n) => sum + n)
  .generator(
    'rows',
    { after: ['sum'] },
    async function* () {
      yield 'a';
      yield 'b';
    },
    (_ctx, row) => row.toUpperCase(),
  )
  .step('large', { needs: ['sum'], when: ({ sum }) => gt(sum, 1_000) }, () => 'large')
  .step(
    'end',
    { needs: ['rows', 'sum'], optional: ['large'], signal: event<string>('go'), timeout: '1h' },
    (_ctx, { rows, sum, large, signal }) => ({ rows, sum, large: large ?? 'no', signal }),
  )
  .output();

const failing = flow('failing')
  .step('good', () => 'good')
  .step('waits', { signal: event('never') }, () => 1)
  .step('bad', { needs: ['good'], retry: { maxAttempts: 2, initialDelay: 1 } }, () => {
    // A stack would contain paths of the recording machine.
    throw Object.assign(new Error('bad'), { stack: undefined });
  })
  .onFail(() => undefined)
  .output();

const early = flow('early')
  .completesEarly<string>()
  .step('waits', { signal: event('never') }, () => 1)
  .step('found', (ctx) => ctx.completeEarly('found', 'at once'))
  .output();

const canceled = flow('canceled')
  .step('a', () => 1)
  .step('waits', { needs: ['a'], signal: event('never') }, () => 1)
  .output();

/** The flows whose histories are in `histories/`. */
export const recordedFlows: readonly RecordedFlow[] = [
  {
    name: 'everything',
    definition: everything as FlowDefinition as FlowDefinition<never>,
    input: { lines: [1, 2, 3] },
    during: (client, id) => signalFlow(client, id, 'go', 'now'),
  },
  {
    name: 'failing',
    definition: failing as FlowDefinition as FlowDefinition<never>,
    input: undefined,
  },
  { name: 'early', definition: early as FlowDefinition as FlowDefinition<never>, input: undefined },
  {
    name: 'canceled',
    definition: canceled as FlowDefinition as FlowDefinition<never>,
    input: undefined,
    during: (client, id) => client.cancel(id, { reason: 'recorded' }),
  },
];
