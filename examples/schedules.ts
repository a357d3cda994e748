/** Schedules: cron in a time zone, an interval, pausing, listing and deleting. */
import { Perdure, task } from 'perdure';

const twice = Promise.withResolvers<void>();
let ticks = 0;

const sweep = task('sweep', (_ctx, room: string) => {
  ticks += 1;
  if (ticks <= 2) console.log(`swept ${room}, tick ${ticks}`);
  if (ticks === 2) twice.resolve();
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { schedules } = perdure.client;
await perdure.startWorker({ tasks: [sweep] });

// 09:00 in Berlin is 08:00 UTC in winter and 07:00 UTC in summer.
await schedules.put('mornings', {
  cron: '0 9 * * MON-FRI',
  timeZone: 'Europe/Berlin',
  startAt: new Date('2035-03-22T00:00:00Z'),
  task: sweep,
  input: 'the hall',
  catchUp: 'skip',
});
for (const at of await schedules.nextRuns('mornings', 3)) console.log(at.toISOString());

// `put` is idempotent: a program can put its schedules on every start.
for (let start = 0; start < 2; start += 1) {
  await schedules.put('often', { every: '1s', task: sweep, input: 'the yard' });
}
await twice.promise;
await schedules.pause('often');

const { items } = await schedules.list();
for (const { name, paused, definition } of items) {
  console.log(name, paused ? 'is paused' : 'is active', definition?.cron ?? definition?.everyMs);
}
await schedules.delete('often');
await perdure.close();

// Output:
// 2035-03-22T08:00:00.000Z
// 2035-03-23T08:00:00.000Z
// 2035-03-26T07:00:00.000Z
// swept the yard, tick 1
// swept the yard, tick 2
// mornings is active 0 9 * * MON-FRI
// often is paused 1000
