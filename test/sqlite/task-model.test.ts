import fc from 'fast-check';
import { it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { step, TaskPair } from './helpers/task-pair.ts';

it('random steps on task runs give the same results and hints as the model', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 30, maxLength: 80, size: 'max' }),
      async (steps) => {
        const clock = new FakeClock();
        const provider = await openSqlite({ path: ':memory:', clock });
        try {
          const pair = new TaskPair(provider, clock);
          for (const one of steps) await pair.take(one);
        } finally {
          await provider.close();
        }
      },
    ),
    { numRuns: 150 },
  );
}, 120_000);
