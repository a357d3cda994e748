import { expect, it, onTestFinished } from 'vitest';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { Perdure } from '../../src/perdure.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('waiting clients', (open) => {
  it('result() reads no history, however the instance ends', async () => {
    const run = orchestration('run', async (ctx) => {
      const word = await ctx.waitFor('go');
      if (word === 'fail') throw new Error('told to fail');
      return word;
    });
    const engine = await open({ orchestrations: [run] });
    const provider = await engine.openProvider();
    const reads: string[] = [];
    const elsewhere = await Perdure.open(
      {
        ...provider,
        readHistory: (params) => {
          reads.push('readHistory');
          return provider.readHistory(params);
        },
        readInstanceHistory: (params) => {
          reads.push('readInstanceHistory');
          return provider.readInstanceHistory(params);
        },
      },
      { pollInterval: 20 },
    );
    onTestFinished(() => elsewhere.close());
    const ids = ['completes', 'fails', 'is canceled', 'is terminated'];
    const handles = await Promise.all(ids.map((id) => engine.client.start(run, undefined, { id })));
    const results = ids.map((id) =>
      elsewhere.client
        .handle(id)
        .result()
        .catch((error: { code: string }) => error.code),
    );
    await handles[0]?.raiseEvent('go', 'done');
    await handles[1]?.raiseEvent('go', 'fail');
    await handles[2]?.cancel();
    await handles[3]?.terminate();
    expect(await Promise.all(results)).toEqual([
      'done',
      'INSTANCE_FAILED',
      'OPERATION_CANCELED',
      'INSTANCE_TERMINATED',
    ]);
    expect(reads).toEqual([]);
    // Shows that reads are recorded.
    await elsewhere.client.history('completes');
    expect(reads).toEqual(['readInstanceHistory']);
  });
});
