/** What the compiler accepts and rejects in updates and awakeables. `tsc` is the test; nothing here runs. */
import {
  orchestration,
  update,
  type Client,
  type DurablePromise,
  type StandardSchema,
  type UpdateToken,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const parsesNumbers: StandardSchema<string, number>;
declare const parsesAnything: StandardSchema<unknown, number>;

const rename = update<string, { length: number }>('rename');
const flush = update<undefined, boolean>('flush');
const count = update('count', { input: parsesNumbers });
exactly<UpdateToken<string, { length: number }>>()(rename);
exactly<UpdateToken<string, unknown, number>>()(count);

orchestration('updated', async (ctx) => {
  ctx.onUpdate(rename, {
    validate: (name) => {
      exactly<string>()(name);
      return name !== '' || 'empty';
    },
    handle: async (name) => ({ length: name.length }),
  });
  ctx.onUpdate(flush, { handle: () => true });
  // The handler gets the parsed input.
  ctx.onUpdate(count, { handle: (value) => exactly<number>()(value) });
  // @ts-expect-error The reply has another type.
  ctx.onUpdate(rename, { handle: (name) => name.length });
  // @ts-expect-error A handler is required.
  ctx.onUpdate(rename, { validate: () => true });
  // @ts-expect-error A validation is synchronous.
  ctx.onUpdate(flush, { validate: async () => true, handle: () => true });
  const { token, promise } = ctx.awakeable<{ by: string }>({ timeout: '1h' });
  exactly<string>()(token);
  exactly<DurablePromise<{ by: string }>>()(promise);
  exactly<number>()(await ctx.awakeable({ schema: parsesAnything }).promise);
  await ctx.updatesSettled();
});

exactly<{ length: number }>()(await client.update('id', rename, 'x', { timeout: '5s', key: 'k' }));
exactly<boolean>()(await client.update('id', flush));
exactly<unknown>()(await client.update('id', 'rename', 1));
await client.update('id', count, '12');
// @ts-expect-error The input is required.
await client.update('id', rename);
// @ts-expect-error The input has another type.
await client.update('id', rename, 5);
// @ts-expect-error A client sends the input of the schema, not its output.
await client.update('id', count, 12);
await client.resolveAwakeable('token', { any: 'value' });
await client.rejectAwakeable('token', new Error('no'));
