import { expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger, task } from '../../src/index.ts';
import { ProviderError } from '../../src/model/failures/errors.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';

it('emits whose commit has an unknown outcome are written once, before and after the commit', async () => {
  const provider = await openSqlite({ path: ':memory:' });
  let calls = 0;
  let repeats = 0;
  const broken = new ProviderError({
    operation: 'appendChunks',
    message: 'The connection was lost.',
    retryable: true,
    outcomeUnknown: true,
  });
  const unsure = Object.assign(Object.create(provider) as typeof provider, {
    async appendChunks(requests: Parameters<typeof provider.appendChunks>[0]) {
      calls += 1;
      if (requests.some(({ record }) => record?.isRepeated === true)) repeats += 1;
      if (calls % 3 === 1) throw broken;
      const results = await provider.appendChunks(requests);
      if (calls % 3 === 2) throw broken;
      return results;
    },
  });
  const perdure = await Perdure.open(unsure, { logger: silentLogger });
  onTestFinished(() => perdure.close());
  const count = task('count', async (ctx) => {
    const emits = Array.from({ length: 200 }, (_, n) => ctx.emit(n));
    return (await Promise.all(emits)).every(Boolean);
  });
  await perdure.startWorker({ tasks: [count] });
  const run = await perdure.client.runTask(count);
  const read: unknown[] = [];
  for await (const entry of run.stream()) read.push(entry.kind === 'chunk' ? entry.value : entry);
  expect(read).toEqual(Array.from({ length: 200 }, (_, n) => n));
  expect(await run.result()).toBe(true);
  expect(repeats).toBeGreaterThan(2);
});
