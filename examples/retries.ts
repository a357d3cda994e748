/** Retries with backoff, non-retryable errors, and timeouts. The caller gets each failure as an exception. */
import { activity, FailedError, orchestration, Perdure } from 'perdure';

const fetchPrice = activity('fetchPrice', async (ctx, item: string) => {
  console.log(`${item}: attempt ${ctx.attempt}`);
  if (item === 'unicorn') throw Object.assign(new Error('no such item'), { code: 'NOT_FOUND' });
  if (ctx.attempt < 3) throw new Error('the shop did not respond');
  return 42;
});

const quote = orchestration('quote', async (ctx, item: string) => {
  try {
    const price = await ctx.call(fetchPrice, item, {
      retry: {
        maxAttempts: 5,
        backoff: 'exponential',
        initialDelay: '10ms',
        nonRetryable: ['NOT_FOUND'],
      },
      attemptTimeout: '5s',
      timeout: '1m',
    });
    return `${item}: ${price}`;
  } catch (error) {
    if (error instanceof FailedError) return `${item}: ${error.failure.message}`;
    throw error;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [quote], activities: [fetchPrice] });

for (const item of ['lamp', 'unicorn']) {
  const handle = await perdure.client.start(quote, item);
  console.log(await handle.result());
}
await perdure.close();

// Output:
// lamp: attempt 1
// lamp: attempt 2
// lamp: attempt 3
// lamp: 42
// unicorn: attempt 1
// unicorn: no such item
