/** What the compiler accepts and rejects in starts, steps, state and streams. `tsc` is the test; nothing here runs. */
import {
  event,
  orchestration,
  task,
  type ActivityCall,
  type Client,
  type ClientCall,
  type CustomStatus,
  type DurablePromise,
  type OrchestrationCall,
  type Perdure,
  type StateEntry,
  type StepContext,
  type StreamEntry,
  type TaskCall,
} from 'perdure';
import { flow } from 'perdure/flows';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const perdure: Perdure;

const touched = event<{ n: number }>('touched');
const square = task('square', (_ctx, n: number) => Promise.resolve(n * n));
const double = flow('double')
  .input<number>()
  .step('twice', {}, (_ctx, { input }) => Promise.resolve(input * 2))
  .output('twice');
const cart = orchestration('cart', async (ctx, owner: string) => {
  exactly<DurablePromise<number>>()(ctx.runTask(square, 3));
  exactly<DurablePromise<number>>()(ctx.child(double, 3, { timeout: '1h', tags: { a: 'b' } }));
  exactly<DurablePromise<unknown>>()(ctx.runTask('square', 3));
  // @ts-expect-error the input of the task is a number
  void ctx.runTask(square, 'three');
  // @ts-expect-error the input of the flow is a number
  void ctx.child(double, 'three');
  // @ts-expect-error a detached instance needs an id
  void ctx.startDetached(double, 3);
  const detached = ctx.startDetached(double, 3, { id: 'a', delay: 5 });
  exactly<Promise<string>>()(detached);

  exactly<DurablePromise<number>>()(ctx.run('one', () => 1));
  exactly<DurablePromise<number>>()(
    ctx.run('two', async (step) => {
      exactly<StepContext>()(step);
      exactly<Promise<boolean>>()(step.emit({ any: 'value' }));
      exactly<AbortSignal>()(step.signal);
      return step.attempt;
    }),
  );
  // @ts-expect-error a step takes no priority
  void ctx.run('three', () => 1, { priority: 3 });
  // @ts-expect-error a step needs a name
  void ctx.run(() => 1);
  exactly<boolean>()(ctx.patched('faster'));
  exactly<void>()(ctx.deprecatePatch('faster'));

  exactly<number | undefined>()(ctx.state.get<number>('total'));
  exactly<unknown>()(ctx.state.get('total'));
  exactly<void>()(ctx.emit({ status: 'begun' }));
  // @ts-expect-error state is changed by the context
  ctx.state = {};
  await ctx.waitFor(touched);
  return owner;
});

void client.start(cart, 'ada', { event: { token: touched, payload: { n: 1 }, key: 'k' } });
// @ts-expect-error the payload is that of the event
void client.start(cart, 'ada', { event: { token: touched, payload: { n: 'one' } } });
// @ts-expect-error an unknown policy
void client.start(cart, 'ada', { onConflict: 'ignore' });
void client.start(cart, 'ada', { onConflict: 'terminateExisting', timeout: '1h', priority: 3 });
// @ts-expect-error headers are text
void client.runFlow(double, 3, { headers: { n: 1 } });
// @ts-expect-error a job always creates its run
void client.submit(cart, 'ada', { onConflict: 'useExisting' });
void client.submit(cart, 'ada', { id: 'a', onConflict: 'terminateExisting' });
void client.submit(cart, 'ada', { event: { token: touched, payload: { n: 1 } } });
// @ts-expect-error the payload is that of the event
void client.submit(cart, 'ada', { event: { token: touched, payload: { n: 'one' } } });
const work = task('work', async (_ctx, _input: string) => 1);
void client.runTask(work, 'x', { id: 'a', onConflict: 'terminateExisting' });
// @ts-expect-error a task receives no events
void client.runTask(work, 'x', { event: { token: touched, payload: { n: 1 } } });
// @ts-expect-error a task receives no events
void client.submit(work, 'x', { event: { token: touched, payload: { n: 1 } } });
orchestration('starter', async (ctx) => {
  const one = { token: touched, payload: { n: 1 } } as const;
  await ctx.startDetached(cart, 'ada', { id: 'a', event: one });
  await ctx.child(cart, 'ada', { id: 'a', event: one, onConflict: 'useExisting' });
  // @ts-expect-error the payload is that of the event
  await ctx.startDetached(cart, 'ada', { id: 'a', event: { token: touched, payload: { n: '' } } });
  // @ts-expect-error the payload is that of the event
  await ctx.child(cart, 'ada', { event: { token: touched, payload: { n: '' } } });
  // @ts-expect-error a call of a task has no id that could be taken
  await ctx.runTask(work, 'x', { onConflict: 'useExisting' });
});
void client.raiseEvent('a', touched, { n: 1 }, { key: 'k' });
// @ts-expect-error a key is text
void client.raiseEvent('a', touched, { n: 1 }, { key: 1 });

exactly<Promise<readonly StateEntry[]>>()(client.state('a'));
exactly<Promise<StateEntry<number> | undefined>>()(client.state<number>('a', 'total'));
exactly<Promise<StateEntry<number>>>()(client.waitForState<number>('a', 'total', { after: 3 }));
exactly<Promise<CustomStatus<number>>>()(client.waitForStatus<number>('a', { after: 3 }));
exactly<AsyncGenerator<StreamEntry<string>, void, undefined>>()(
  client.stream<string>('a', { after: '1.x' }),
);
// @ts-expect-error a cursor is text
void client.stream('a', { after: 1 });
void client.resolveAwakeable('token', { any: 'value' });
void client.rejectAwakeable('token', 'declined');

perdure.use({
  client: (call, next) => (exactly<ClientCall>()(call), next()),
  orchestration: (call, next) => (exactly<OrchestrationCall>()(call), next()),
  activity: (call, next) => (exactly<ActivityCall>()(call), next()),
  task: (call, next) => (exactly<TaskCall>()(call), next()),
});
// @ts-expect-error there is no such hook
perdure.use({ worker: () => undefined });
