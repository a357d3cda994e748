import { expect, it } from 'vitest';
import { silentLogger } from '../../model/logger.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import { UnclaimedWorkWatch } from './unclaimed-work-watch.ts';

it('a clock that is set back does not delay the next query for unclaimed work', async () => {
  const clock = new FakeClock();
  let queries = 0;
  const store = {
    async findUnclaimedWork() {
      queries += 1;
      return [];
    },
    listWorkers: () => Promise.reject(new Error('not needed without unclaimed work')),
  };
  const own = { orchestrations: [], activities: [], tasks: [] };
  const watch = new UnclaimedWorkWatch({ store, clock, logger: silentLogger, own });
  await clock.setBack(3_600_000);
  await clock.advance(15_000);
  watch.queryIfDue();
  expect(queries).toBe(1);
  await watch.stop();
});
