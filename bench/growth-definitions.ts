import { activity, orchestration, task } from 'perdure';

/** When the batches of `long` began, in milliseconds. */
export const batchTimes: number[] = [];

const mark = activity('mark', () => {
  batchTimes.push(performance.now());
  return 0;
});

const item = activity('item', (_ctx, n: number) => n);

const batchSize = 100;

/** The events of an activity: scheduled and completed. */
export const eventsPerBatch = batchSize * 2;

/** A history of many events, in batches of parallel activities. */
export const long = orchestration('long', async (ctx, batches: number) => {
  for (let batch = 0; batch < batches; batch++) {
    const others = Array.from({ length: batchSize - 1 }, (_, n) => ctx.call(item, n));
    await ctx.all([ctx.call(mark), ...others]);
  }
});

/** Receives buffered events after the event `go`. */
export const collector = orchestration('collector', async (ctx, count: number) => {
  await ctx.waitFor('go');
  for (let n = 0; n < count; n++) await ctx.waitFor('item');
  return count;
});

/** No worker of this benchmark runs it. */
export const unregistered = orchestration('unregistered', () => Promise.resolve());

export const empty = task('empty', () => Promise.resolve());

/** Ten timers of 30 days. */
export const tenTimers = orchestration('tenTimers', async (ctx) => {
  await ctx.all(Array.from({ length: 10 }, () => ctx.sleep('30d')));
});

/** The definitions that grow with their instance. */
export const growthDefinitions = {
  orchestrations: [long, collector, tenTimers],
  activities: [mark, item],
  tasks: [empty],
};
