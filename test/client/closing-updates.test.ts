import { describe, expect, it, onTestFinished } from 'vitest';
import { orchestration, update } from '../../src/index.ts';
import { createEncodedStore, storeKinds } from '../encoding/encoded-store.ts';

const add = update<number, number>('add');
const adding = orchestration('adding', async (ctx) => {
  ctx.onUpdate(add, { handle: (value) => value + 1 });
  await ctx.waitFor('end');
});

/** Encodes so slowly that a close comes between. */
const slowCodec = {
  async encode(bytes: Uint8Array) {
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
    return { keyId: 'k', bytes: bytes.toReversed() };
  },
  decode: (bytes: Uint8Array) => bytes.toReversed(),
};

describe.each(storeKinds)('updates of a client that is closed, on %s', (kind) => {
  it('close() while an update is being stored causes no unhandled rejection', async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', onUnhandled);
    onTestFinished(() => {
      process.off('unhandledRejection', onUnhandled);
    });
    const perdure = await (await createEncodedStore(kind)).open({ codec: slowCodec });
    await perdure.startWorker({ orchestrations: [adding] });
    const { id } = await perdure.client.start(adding);
    const replies = [1, 2, 3].map((value) => perdure.client.update(id, add, value));
    const settled = Promise.allSettled(replies);
    await perdure.close();
    for (const reply of await settled) expect(reply.status).toBe('rejected');
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
    expect(unhandled).toEqual([]);
  });
});
