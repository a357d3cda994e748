/**
 * `undefined` in inputs, outputs and payloads survives inference, with and without `exactOptionalPropertyTypes`;
 * `tsc` is the test, nothing here runs.
 */
import {
  activity,
  event,
  isolatedActivity,
  isolatedTask,
  orchestration,
  task,
  type DurablePromise,
  type Handle,
  type Job,
  type Perdure,
  type StartedHandle,
} from 'perdure';
import { flow, signalFlow } from 'perdure/flows';
import { exactly } from './exactly.ts';

interface User {
  readonly name: string;
}
type Maybe = User | undefined;

declare const perdure: Perdure;
declare const user: Maybe;
const { client } = perdure;

const find = activity('find', async (_ctx, _name: string | undefined) => user);
const findAway = isolatedActivity<string | undefined, Maybe>('find-away', {
  module: new URL('file:///handlers.js'),
});
const lookUp = orchestration('look-up', async (_ctx, _name?: string) => user);
const search = task('search', async (_ctx, _name: string | undefined) => user);
const searchAway = isolatedTask<string | undefined, Maybe>('search-away', {
  module: new URL('file:///handlers.js'),
});
const picked = event<Maybe>('picked');
const seek = flow('seek')
  .input<string | undefined>()
  .step('a', () => user)
  .output();

// A value that may be undefined has that type on arrival.
orchestration('outer', async (ctx) => {
  exactly<DurablePromise<Maybe>>()(ctx.call(find, 'a'));
  exactly<DurablePromise<Maybe>>()(ctx.call(findAway, 'a'));
  exactly<DurablePromise<Maybe>>()(ctx.child(lookUp, 'a'));
  exactly<DurablePromise<Maybe>>()(ctx.waitFor(picked));
  // @ts-expect-error there may be no user
  void (await ctx.call(find, 'a')).name;
  // @ts-expect-error there may be no user
  void (await ctx.waitFor(picked)).name;
});
exactly<Promise<StartedHandle<Maybe>>>()(client.start(lookUp, 'a'));
exactly<Promise<Maybe>>()(client.handle(lookUp, 'l-1').result());
exactly<Promise<StartedHandle<Maybe>>>()(client.runTask(search, 'a'));
exactly<Promise<StartedHandle<Maybe>>>()(client.runTask(searchAway, 'a'));
exactly<Promise<Handle<Maybe>>>()(client.runFlow(seek, 'a'));
exactly<Job<Maybe>>()(client.submit(lookUp, 'a'));
exactly<Job<Maybe>>()(client.submit(search, 'a'));
exactly<Job<Maybe>>()(client.submit(seek, 'a'));
const [first] = await client.runTasks([{ task: search }]);
exactly<StartedHandle<Maybe>>()(first);

// An input that may be undefined can be omitted.
orchestration('callers', async (ctx) => {
  void ctx.call(find);
  void ctx.call(find, undefined, { timeout: '1m' });
  void ctx.call(findAway);
  void ctx.child(lookUp);
  void ctx.startDetached(lookUp, undefined, { id: 'l-2' });
  await ctx.continueAsNew();
});
void client.start(lookUp);
void client.start(lookUp, undefined, { id: 'l-1' });
void client.runTask(search);
void client.runTask(searchAway, undefined, { priority: 3 });
void client.runFlow(seek);
void client.submit(lookUp);
void client.submit(search);
void client.submit(seek);
void client.raiseEvent('l-1', picked);
void client.handle(lookUp, 'l-1').raiseEvent(picked, undefined);
void signalFlow(client, 's-1', picked);
void client.schedules.put('hourly', { every: '1h', task: search });
void client.schedules.put('daily', { cron: '@daily', orchestration: lookUp });
void client.schedules.put('weekly', { cron: '@weekly', flow: seek });

// The other types of a union are still checked.
// @ts-expect-error the input is of the wrong type
void client.start(lookUp, 5);
// @ts-expect-error the payload is of the wrong type
void client.raiseEvent('l-1', picked, 5);
// @ts-expect-error the input is of the wrong type
void client.schedules.put('hourly', { every: '1h', task: search, input: 5 });
