import assert from 'node:assert/strict';

// Real time, because it bounds a provider that does not answer at all; none that works comes near it.
const limitMs = 3_000;

/** Awaits an answer that must come by itself; a provider that never gives it fails the case instead of hanging it. */
export async function answered<Result>(promise: Promise<Result>, what: string): Promise<Result> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timeout = setTimeout(
      () => reject(new assert.AssertionError({ message: `${what}: no answer` })),
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
  assert.equal(settled, false, `${what} should still wait`);
}
