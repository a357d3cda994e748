import { expect, it } from 'vitest';
import { systemClock } from '../../model/clock.ts';
import { silentLogger } from '../../model/logger.ts';
import { TokenSource, createToken, digestOf } from './tokens.ts';

it('a load that never settles keeps the last list in use and is retried', async () => {
  const { token, sha256 } = createToken();
  const digest = digestOf(token);
  const list = [{ name: 'a', role: 'read', sha256 }] as const;
  let calls = 0;
  const source = new TokenSource({
    // Only the first call settles.
    load: () => ((calls += 1) === 1 ? list : new Promise<never>(() => undefined)),
    clock: systemClock,
    logger: silentLogger,
    maxAgeMs: 0,
    loadTimeoutMs: 20,
  });
  await source.start();
  await expect.poll(() => source.find(digest)).toMatchObject({ name: 'a' });
  await expect
    .poll(async () => {
      await source.find(digest);
      return calls;
    })
    .toBeGreaterThan(2);
});
