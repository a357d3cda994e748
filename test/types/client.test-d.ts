/** What the compiler accepts and rejects at the client. `tsc` is the test; nothing here runs. */
import type {
  ActivityClient,
  EventToken,
  Handle,
  StartedHandle,
  InstanceInfo,
  OrchestrationRef,
  Perdure,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Perdure['client'];
declare const order: OrchestrationRef<{ sku: string; qty?: number }, { total: number }>;
declare const cleanUp: OrchestrationRef<void, string>;
declare const tick: OrchestrationRef<undefined, Date>;
declare const greet: OrchestrationRef<string | undefined, string>;
declare const anything: OrchestrationRef;
declare const approved: EventToken<{ by: string }>;
declare const stop: EventToken<undefined>;

// The input has the type of the definition, and so has the result.
exactly<Promise<StartedHandle<{ total: number }>>>()(client.start(order, { sku: 'a' }));
exactly<Promise<StartedHandle<{ total: number }>>>()(
  client.start(order, { sku: 'a', qty: 1 }, { id: 'o-1' }),
);
exactly<Promise<{ total: number }>>()((await client.start(order, { sku: 'a' })).result());
exactly<Promise<InstanceInfo<{ total: number }>>>()(client.handle(order, 'o-1').status());

// @ts-expect-error the input is missing
void client.start(order);
// @ts-expect-error the input is not undefined
void client.start(order, undefined);
// @ts-expect-error a property is missing
void client.start(order, {});
// @ts-expect-error a property has the wrong type
void client.start(order, { sku: 5 });
// @ts-expect-error a property is misspelt
void client.start(order, { sku: 'a', quantity: 1 });
// @ts-expect-error the input is of another type altogether
void client.start(order, 'a');
// @ts-expect-error an option is misspelt
void client.start(order, { sku: 'a' }, { instanceId: 'o-1' });
// @ts-expect-error an id is text
void client.start(order, { sku: 'a' }, { id: 1 });
// @ts-expect-error there are no more arguments
void client.start(order, { sku: 'a' }, {}, {});

// An orchestration without an input needs none and accepts none.
exactly<Promise<StartedHandle<string>>>()(client.start(cleanUp));
void client.start(cleanUp, undefined, { id: 'c-1' });
void client.start(tick);
void client.start(greet);
void client.start(greet, 'you');
// @ts-expect-error it takes no input
void client.start(cleanUp, 'everything');
// @ts-expect-error it takes text or nothing
void client.start(greet, 5);

// For a plain name or an untyped definition, any input is accepted and the output is `unknown`.
exactly<Promise<StartedHandle>>()(
  client.start('order', { whatever: 1 }, { id: 'o-1', version: '2' }),
);
exactly<Promise<StartedHandle>>()(client.start('order'));
exactly<Promise<StartedHandle>>()(client.start(anything, 5));
const unknownResult = await (await client.start('order')).result();
// @ts-expect-error what is unknown has to be checked first
void unknownResult.total;

// @ts-expect-error a definition is not just any object
void client.start({ name: 'order' });
// @ts-expect-error an activity cannot be started
void client.start({ kind: 'activity', name: 'order' }, 1);
// @ts-expect-error nothing is no definition
void client.start(undefined);

// A handle by id alone has an unknown output, unless the caller gives its type.
exactly<Handle>()(client.handle('o-1'));
exactly<Handle<number>>()(client.handle<number>('o-1'));
exactly<Handle<string>>()(client.handle(cleanUp, 'c-1'));
// @ts-expect-error a definition alone names no instance
client.handle(order);
// @ts-expect-error the output of the one is not the output of the other
const wrongHandle: Handle<string> = client.handle(order, 'o-1');
void wrongHandle;

// The payload of an event has the type of its token.
void client.raiseEvent('o-1', approved, { by: 'someone' });
void client.raiseEvent('o-1', stop);
void client.raiseEvent('o-1', 'approved', { whatever: 1 });
void client.raiseEvent('o-1', 'approved');
const handle = client.handle('o-1');
void handle.raiseEvent(approved, { by: 'someone' });
void handle.raiseEvent(stop);
void handle.raiseEvent('approved', 5);
// @ts-expect-error the payload is missing
void client.raiseEvent('o-1', approved);
// @ts-expect-error the payload has the wrong type
void client.raiseEvent('o-1', approved, { by: 5 });
// @ts-expect-error the payload is of another type altogether
void client.raiseEvent('o-1', approved, 'someone');
// @ts-expect-error the event carries nothing
void client.raiseEvent('o-1', stop, 'now');
// @ts-expect-error the payload is missing
void handle.raiseEvent(approved);
// @ts-expect-error the payload has the wrong type
void handle.raiseEvent(approved, { by: 5 });
// @ts-expect-error an orchestration is no event
void client.raiseEvent('o-1', order, {});

// Filters and pages accept only known conditions.
void client.list();
void client.list({ status: 'failed' });
void client.list(
  { status: ['failed', 'completed'], createdFrom: new Date(), blocked: true },
  { limit: 5 },
);
// @ts-expect-error there is no such status
void client.list({ status: 'done' });
// @ts-expect-error a condition is misspelt
void client.list({ statuses: ['failed'] });
void client.list({ createdFrom: '1h', name: ['a', 'b'], tags: { tenant: '7' } });
// @ts-expect-error times are dates, numbers or durations
void client.list({ createdFrom: true });
// @ts-expect-error pages have cursors, not offsets
void client.list({}, { offset: 10 });
// @ts-expect-error a timeout is a number or text
void client.wait('o-1', { timeout: new Date() });

// An instance may be missing, and its output is unknown.
const info = await client.get('o-1');
// @ts-expect-error it may be undefined
void info.status;
exactly<unknown>()(info?.output);

// Activities get a client.
const activityClient: ActivityClient = client;
void activityClient;
