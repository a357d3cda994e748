/** What the compiler accepts and rejects in cancel and terminate calls. `tsc` is the test; nothing here runs. */
import {
  activity,
  isolatedActivity,
  orchestration,
  type ActivityDefinition,
  type CancelRequest,
  type Client,
  type DurablePromise,
  type Handle,
  type RunningItem,
  type StopResult,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const handle: Handle<string>;

// The result type does not depend on the instance.
exactly<Promise<StopResult>>()(client.cancel('a'));
exactly<Promise<StopResult>>()(client.cancel('a', { reason: 'why', actor: 'jo', wait: true }));
exactly<Promise<StopResult>>()(handle.cancel({ cleanupTimeout: '5m' }));
exactly<Promise<StopResult>>()(handle.terminate({ reason: 'why', tree: true }));
// @ts-expect-error a reason is text
void handle.cancel({ reason: 5 });
// @ts-expect-error the reason is an option
void handle.cancel('why');
// @ts-expect-error a terminate has no clean-up
void handle.terminate({ cleanupTimeout: '5m' });

const info = await handle.status();
exactly<CancelRequest | undefined>()(info.cancel);
exactly<readonly RunningItem[] | undefined>()(info.running);
exactly<true | undefined>()(info.cleanupSkipped);

// A scope or a shield returns a durable promise of its code's result.
const greet = activity('greet', async (ctx, name: string) => {
  exactly<Promise<void>>()(ctx.pointOfNoReturn());
  return `Hello, ${name}!`;
});
const kid = orchestration('kid', async () => 1);
orchestration('stops', async (ctx) => {
  exactly<DurablePromise<string>>()(ctx.scope(() => ctx.call(greet, 'a'), { timeout: '1s' }));
  exactly<DurablePromise<number>>()(ctx.scope(() => 1, { name: 'plain' }));
  exactly<DurablePromise<string>>()(ctx.shield(async () => 'x', { timeout: 5 }));
  ctx.scope(() => ctx.sleep(1)).cancel('enough');
  void ctx.call(greet, 'a', { cancellation: 'wait' });
  void ctx.child(kid, undefined, { cancellation: 'abandon' });
  exactly<string>()(await ctx.race([ctx.call(greet, 'a')], { keepLosers: true }));
  // @ts-expect-error there is no such way to be canceled
  void ctx.call(greet, 'a', { cancellation: 'never' });
  // @ts-expect-error a scope takes a function, so that what it issues is its own
  void ctx.scope(ctx.sleep(1));
  // @ts-expect-error a shield has no name
  void ctx.shield(() => 1, { name: 'x' });
});

// An isolated activity cannot infer its types: its function is in another module.
const resize = isolatedActivity<{ file: string }, number>('resize', {
  module: new URL('file:///handlers.js'),
});
exactly<ActivityDefinition<{ file: string }, number>>()(resize);
// @ts-expect-error a closure cannot move to another thread
isolatedActivity('resize', async () => 1);
