/** What the compiler accepts and rejects for tasks and schedules. `tsc` is the test; nothing here runs. */
import * as z from 'zod';
import {
  task,
  type BatchRun,
  type FailedRun,
  type Handle,
  type OrchestrationRef,
  type Perdure,
  type TaskDefinition,
  type StartedHandle,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Perdure['client'];
declare const report: OrchestrationRef<{ day: string }, number>;

const mail = task('mail', async (_ctx, input: { to: string }) => input.to.length);
const sweep = task('sweep', () => 'swept');
exactly<TaskDefinition<{ to: string }, number>>()(mail);
exactly<TaskDefinition<void, string>>()(sweep);

// The input has the type of the handler, and so has the result.
exactly<Promise<StartedHandle<number>>>()(client.runTask(mail, { to: 'a' }, { priority: 3 }));
exactly<Promise<number>>()((await client.runTask(mail, { to: 'a' })).result());
exactly<Promise<StartedHandle<string>>>()(client.runTask(sweep));
exactly<Handle<number>>()(client.handle(mail, 'm-1'));
exactly<Promise<StartedHandle>>()(client.runTask('mail', { whatever: 1 }));

// @ts-expect-error the input is missing
void client.runTask(mail);
// @ts-expect-error a property has the wrong type
void client.runTask(mail, { to: 5 });
// @ts-expect-error it takes no input
void client.runTask(sweep, 'everything');
// @ts-expect-error an option is misspelt
void client.runTask(mail, { to: 'a' }, { expires: 5 });
// @ts-expect-error headers are text
void client.runTask(mail, { to: 'a' }, { headers: { retries: 3 } });
// @ts-expect-error an orchestration is no task
void client.runTask(report, { day: 'today' });
// @ts-expect-error a task is no orchestration
void client.start(mail, { to: 'a' });

// A batch keeps the types of each request.
const [first, second, third] = await client.runTasks([
  { task: mail, input: { to: 'a' } },
  { task: sweep, options: { delay: '1h' } },
  { task: 'named', input: 1 },
]);
exactly<StartedHandle<number>>()(first);
exactly<StartedHandle<string>>()(second);
exactly<StartedHandle>()(third);
const many = await client.runTasks(['a', 'b'].map((to) => ({ task: mail, input: { to } })));
exactly<StartedHandle<number> | undefined>()(many.at(0));
// @ts-expect-error the input of the second has the wrong type
void client.runTasks([{ task: sweep }, { task: mail, input: { to: 5 } }]);
// @ts-expect-error the input is missing
void client.runTasks([{ task: mail }]);

// Conditions and failure handlers get the input of the task; a schema decides its type.
task('typed', (_ctx, input: { n: number }) => input.n, {
  condition: (input) => {
    exactly<{ n: number }>()(input);
    return true;
  },
  onFail: { handler: (_ctx, failed) => exactly<FailedRun<{ n: number }>>()(failed) },
});
const checked = task('checked', (_ctx, input) => input.n, { input: z.object({ n: z.number() }) });
exactly<TaskDefinition<{ n: number }, number>>()(checked);
// @ts-expect-error a condition answers true or false
task('vague', (_ctx, _input: string) => 1, { condition: () => 'yes' });
// @ts-expect-error a handler for failures cannot cancel the run, which is over
task('over', () => 1, { onFail: { handler: (ctx) => ctx.cancel() } });

// The option `batch` decides the type of the handler.
const insert = task(
  'insert',
  async (ctx, runs: readonly BatchRun<{ to: string }, number>[]) => {
    exactly<AbortSignal>()(ctx.signal);
    for (const run of runs) run.complete(run.input.to.length);
  },
  { batch: { max: 100, wait: '200ms' }, concurrency: 2 },
);
exactly<TaskDefinition<{ to: string }, number>>()(insert);
const returned = task('returned', (_ctx, runs: readonly BatchRun<string>[]) => runs.map(() => 1), {
  batch: { max: 2 },
});
exactly<TaskDefinition<string, number>>()(returned);
const parsed = task('parsed', async (_ctx, runs) => runs.map(({ input }) => input.n), {
  batch: { max: 2 },
  input: z.object({ n: z.number() }),
  onFail: { handler: (_ctx, { input }) => exactly<number>()(input.n) },
});
exactly<TaskDefinition<{ n: number }, number>>()(parsed);
// @ts-expect-error a result has the wrong type
task('wrong', async (_ctx, [run]: readonly BatchRun<string, number>[]) => run?.complete('a'), {
  batch: { max: 2 },
});
// @ts-expect-error `max` is missing
task('unbounded', async (_ctx, runs: readonly BatchRun<string>[]) => runs, { batch: {} });

// A schedule checks the input type of what it starts.
void client.schedules.put('nightly', { cron: '0 3 * * *', task: mail, input: { to: 'ops' } });
void client.schedules.put('hourly', { every: '1h', task: sweep, catchUp: 'skip' });
void client.schedules.put('daily', { cron: '@daily', orchestration: report, input: { day: 'x' } });
void client.schedules.put('named', { every: '1h', task: 'by name', input: 5 });
// @ts-expect-error the input is missing
void client.schedules.put('nightly', { cron: '0 3 * * *', task: mail });
// @ts-expect-error a property has the wrong type
void client.schedules.put('nightly', { cron: '0 3 * * *', task: mail, input: { to: 5 } });
// @ts-expect-error there is no such policy
void client.schedules.put('hourly', { every: '1h', task: sweep, catchUp: 'some' });
// @ts-expect-error its ticks choose the ids
void client.schedules.put('hourly', { every: '1h', task: sweep, options: { id: 'x' } });
