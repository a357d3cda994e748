import { describe, expect, it } from 'vitest';
import type { Logger } from './model/logger.ts';
import { Perdure, type OpenOptions, type StartWorkerOptions } from './perdure.ts';

describe('opening a store', () => {
  it.each([undefined, null, 5, {}, []])(
    'throws INVALID_OPTION for %j, which is neither a path nor a provider',
    async (store) => {
      await expect(Perdure.open(store as string)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    },
  );

  it.each([
    ['an interval that cannot be read', { pollInterval: 'soon' }, 'INVALID_DURATION'],
    ['a negative limit', { payloadLimitBytes: -1 }, 'INVALID_OPTION'],
    ['an unknown option', { sync: 'full' }, 'INVALID_OPTION'],
    ['a value that is not an object', 'full', 'INVALID_OPTION'],
  ])('rejects %s before it opens the store', async (_what, options, code) => {
    const opening = Perdure.open('/nowhere/at/all.db', options as OpenOptions);
    await expect(opening).rejects.toMatchObject({ code });
  });
});

describe('starting a worker', () => {
  it.each([
    ['no options', undefined],
    ['a list that is not an array', { orchestrations: 5 }],
    ['a misspelt option', { activtyConcurrency: 5 }],
    ['a logger without methods', { logger: 5 }],
    ['no slots', { activityConcurrency: 0 }],
    ['a lease too short to be renewed', { activityLease: 1 }],
    ['an activity that is not a definition', { activities: [async () => 1] }],
  ])('throws INVALID_OPTION for %s', async (_what, options) => {
    await using perdure = await Perdure.open(':memory:');
    const starting = perdure.startWorker(options as unknown as StartWorkerOptions);
    await expect(starting).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('accepts the console as a logger', async () => {
    const logger: Logger = console;
    await using perdure = await Perdure.open(':memory:');
    const worker = await perdure.startWorker({ logger });
    await expect(worker.stop()).resolves.toBeUndefined();
  });

  it('throws CLOSED after the store is closed', async () => {
    const perdure = await Perdure.open(':memory:');
    await perdure.close();
    await expect(perdure.startWorker({})).rejects.toMatchObject({ code: 'CLOSED' });
  });
});
