import assert from 'node:assert/strict';

// Real time, because it limits a provider that never settles. A working provider is far below it.
const limitMs = 3_000;

/** Awaits a promise. Fails the case if the promise does not settle within the limit. */
export async function withTimeLimit<Result>(
  promise: Promise<Result>,
  what: string,
): Promise<Result> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timeout = setTimeout(
      () => reject(new assert.AssertionError({ message: `${what}: timed out` })),
      limitMs,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timeout);
  }
}

/** Expects that a promise has not settled after a few turns of the event loop. */
export async function expectPending(promise: Promise<unknown>, what: string): Promise<void> {
  let settled = false;
  const settle = () => {
    settled = true;
  };
  promise.then(settle, settle);
  for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(settled, false, `${what} should still be pending`);
}
