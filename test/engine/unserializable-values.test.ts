import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

class Point {
  x = 1;
}
const values = {
  date: { at: new Date(0) },
  instance: { at: new Point() },
  item: { at: [undefined] },
};
type Kind = keyof typeof values;
const problems: Readonly<Record<Kind, RegExp>> = {
  date: /: at is a Date/,
  instance: /: at is an instance of Point/,
  item: /: at\[0\] is undefined/,
};

const take = activity('take', (_ctx, value: unknown) => value);
const give = activity('give', (_ctx, kind: Kind) => values[kind] as unknown);
const beat = activity('beat', (ctx, kind: Kind) => ctx.heartbeat(values[kind]));
const emit = activity('emit', async (ctx, kind: Kind) => void (await ctx.emit(values[kind])));
const child = orchestration('child', async (_ctx, value: unknown) => value);
const job = task('job', (_ctx, value: unknown) => value);
const graph = flow('graph')
  .input<unknown>()
  .step('a', () => 1)
  .output();

const places = {
  'the input of an activity': (ctx, kind) => ctx.call(take, values[kind]),
  'the result of an activity': (ctx, kind) => ctx.call(give, kind),
  'a heartbeat': (ctx, kind) => ctx.call(beat, kind),
  'an emitted chunk': (ctx, kind) => ctx.call(emit, kind),
  'the input of a child': (ctx, kind) => ctx.child(child, values[kind]),
  'the custom status': async (ctx, kind) => ctx.setCustomStatus(values[kind]),
  'the next input': (ctx, kind) => ctx.continueAsNew(values[kind], { version: '1' }),
  'the result of an orchestration': async (_ctx, kind) => values[kind],
} satisfies Readonly<
  Record<string, (ctx: Parameters<typeof child.handler>[0], kind: Kind) => Promise<unknown>>
>;
const everywhere = orchestration(
  'everywhere',
  async (ctx, { place, kind }: { place: keyof typeof places; kind: Kind }) =>
    places[place](ctx as never, kind),
);

describeEngine('values that JSON would change', (open) => {
  const definitions = {
    orchestrations: [everywhere, child],
    activities: [take, give, beat, emit],
    tasks: [job],
    flows: [graph],
  };

  it.each(Object.keys(places) as (keyof typeof places)[])(
    'a value that JSON would change is rejected as %s',
    async (place) => {
      const { client } = await open(definitions);
      for (const kind of Object.keys(values) as Kind[]) {
        const handle = await client.start(everywhere, { place, kind });
        const error: unknown = await handle.result().then(
          () => undefined,
          (reason: unknown) => reason,
        );
        const { failure } = error as {
          failure: { code?: string; message: string; cause?: object };
        };
        const { code, message } = { ...failure, ...failure.cause };
        expect([code, message]).toEqual([
          'NOT_SERIALIZABLE',
          expect.stringMatching(problems[kind]),
        ]);
      }
    },
  );

  it('start, task, flow, job, schedule and event reject values that JSON would change', async () => {
    const { client } = await open(definitions);
    const handle = await client.start(everywhere, { place: 'a heartbeat', kind: 'date' });
    for (const kind of Object.keys(values) as Kind[]) {
      const value = values[kind];
      const refused = {
        code: 'NOT_SERIALIZABLE',
        message: expect.stringMatching(problems[kind]) as string,
      };
      const calls = [
        () => client.start(child, value),
        () => client.runTask(job, value),
        () => client.runFlow(graph, value),
        async () => client.submit(child, value).result(),
        () => client.schedules.put('s', { every: '1h', task: job, input: value }),
        () => handle.raiseEvent('e', value),
      ];
      for (const call of calls) {
        await expect(call()).rejects.toMatchObject(
          call === calls[2]
            ? { ...refused, message: expect.stringContaining('input.at') as string }
            : refused,
        );
      }
    }
  });
});
