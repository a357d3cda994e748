import { describe, expect, test } from 'vitest';
import { PollSlots, SharedPoll, type PollResult } from '../../src/remote/shared-poll.ts';

interface Asked {
  readonly requests: readonly string[];
  readonly signal: AbortSignal;
  readonly answer: (results: readonly PollResult<string>[]) => void;
  readonly fail: (error: Error) => void;
}

/** Creates a poll with responses from the test. */
function pollWith(slots = new PollSlots()) {
  const asked: Asked[] = [];
  const poll = new SharedPoll<string, string>(slots, (requests, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly PollResult<string>[]>();
    asked.push({ requests, signal, answer: resolve, fail: reject });
    signal.addEventListener('abort', () => reject(signal.reason));
    return promise;
  });
  const nextAsked = async (count: number): Promise<void> => {
    await expect.poll(() => asked.length).toBe(count);
  };
  return { poll, asked, nextAsked };
}

describe('SharedPoll', () => {
  test('concurrent waits share one request and get their own results', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const waits = ['a', 'b', 'c'].map((key) => poll.wait(key, key));
    await nextAsked(1);
    expect(asked[0]?.requests).toEqual(['a', 'b', 'c']);
    asked[0]?.answer(['c', 'a', 'b'].map((key) => ({ key, value: `${key}!` })));
    expect(await Promise.all(waits)).toEqual(['a!', 'b!', 'c!']);
  });

  test('a wait without a result is polled again', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const [first, second] = [poll.wait('a', 'a'), poll.wait('b', 'b')];
    await nextAsked(1);
    asked[0]?.answer([{ key: 'a', value: 'A' }]);
    expect(await first).toBe('A');
    await nextAsked(2);
    expect(asked[1]?.requests).toEqual(['b']);
    asked[1]?.answer([]);
    await nextAsked(3);
    asked[2]?.answer([{ key: 'b', value: 'B' }]);
    expect(await second).toBe('B');
  });

  test('later waits get their own request; the third request joins all of them', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const waits: Promise<string>[] = [];
    for (const key of ['a', 'b', 'c']) {
      waits.push(poll.wait(key, key));
      await nextAsked(waits.length);
    }
    expect(asked.map(({ requests }) => [...requests].sort())).toEqual([
      ['a'],
      ['b'],
      ['a', 'b', 'c'],
    ]);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
    asked[2]?.answer(['a', 'b', 'c'].map((key) => ({ key, value: key })));
    expect(await Promise.all(waits)).toEqual(['a', 'b', 'c']);
  });

  test('waits for the same key are requested once', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const waits = [poll.wait('a', 'a'), poll.wait('a', 'a')];
    await nextAsked(1);
    expect(asked[0]?.requests).toEqual(['a']);
    asked[0]?.answer([{ key: 'a', value: 'A' }]);
    expect(await Promise.all(waits)).toEqual(['A', 'A']);
  });

  test('aborting the last wait aborts its request', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const [one, other] = [new AbortController(), new AbortController()];
    const waits = [poll.wait('a', 'a', one.signal), poll.wait('b', 'b', other.signal)];
    await nextAsked(1);
    one.abort(new Error('no more'));
    await expect(waits[0]).rejects.toThrow('no more');
    expect(asked[0]?.signal.aborted).toBe(false);
    other.abort(new Error('nor this'));
    await expect(waits[1]).rejects.toThrow('nor this');
    expect(asked[0]?.signal.aborted).toBe(true);
    expect(asked).toHaveLength(1);
  });

  test('a failed request rejects its wait, and the next wait polls again', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const failing = poll.wait('a', 'a');
    await nextAsked(1);
    asked[0]?.fail(new Error('broken'));
    await expect(failing).rejects.toThrow('broken');
    const waiting = poll.wait('a', 'a');
    await nextAsked(2);
    asked[1]?.answer([{ key: 'a', value: 'A' }]);
    expect(await waiting).toBe('A');
  });

  test('with one poll slot, a second poll waits for the first', async () => {
    const slots = new PollSlots(1);
    const [one, other] = [pollWith(slots), pollWith(slots)];
    const first = one.poll.wait('a', 'a');
    await one.nextAsked(1);
    const second = other.poll.wait('b', 'b');
    await new Promise((resolve) => setImmediate(resolve));
    expect(other.asked).toHaveLength(0);
    one.asked[0]?.answer([{ key: 'a', value: 'A' }]);
    expect(await first).toBe('A');
    await other.nextAsked(1);
    other.asked[0]?.answer([{ key: 'b', value: 'B' }]);
    expect(await second).toBe('B');
  });

  test('close() rejects pending waits with its error and aborts the request', async () => {
    const { poll, asked, nextAsked } = pollWith();
    const wait = poll.wait('a', 'a');
    await nextAsked(1);
    poll.close(new Error('closed'));
    await expect(wait).rejects.toThrow('closed');
    expect(asked[0]?.signal.aborted).toBe(true);
  });
});
