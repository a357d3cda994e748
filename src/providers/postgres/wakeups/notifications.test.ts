import { describe, expect, it } from 'vitest';
import { decodePayload, encodePayloads, type CommitNotice } from './notifications.ts';

const quiet: CommitNotice = {
  dueAt: {},
  definitions: {},
  finished: [],
  cancelRequested: [],
  emitted: [],
  statusSet: [],
  messages: [],
  more: false,
};
const encode = (notice: Partial<CommitNotice>) =>
  encodePayloads({ from: 'me', kind: 'news', ...quiet, ...notice });
const decode = (payloads: readonly string[]) =>
  payloads.map((payload) => decodePayload(payload) as unknown as CommitNotice);

describe('notification payloads', () => {
  it('decode to the notice that was encoded', () => {
    const notice = {
      dueAt: { work: 7 },
      finished: ['a', 'with \0 and \ud800'],
      cancelRequested: ['1.x'],
    };
    const streams = decode(encode({ ...notice, emitted: ['s'] }));
    expect(streams.map(({ emitted }) => emitted)).toEqual([[], [], ['s']]);
    expect(decode(encode(notice)).map(({ finished }) => finished)).toEqual([notice.finished, []]);
    expect(decode(encode(notice)).map(({ cancelRequested }) => cancelRequested)).toEqual([
      [],
      ['1.x'],
    ]);
    expect(decode(encode({ dueAt: { work: 7 } }))).toEqual([
      { from: 'me', kind: 'news', ...quiet, dueAt: { work: 7 } },
    ]);
  });

  it('hold 2,000 lock tokens in payloads below 8,000 bytes', () => {
    const cancelRequested = Array.from({ length: 2_000 }, (_, i) => `${i}.${'x'.repeat(22)}`);
    const payloads = encode({ cancelRequested });
    expect(Math.max(...payloads.map((payload) => Buffer.byteLength(payload)))).toBeLessThan(8_000);
    expect(decode(payloads).flatMap((notice) => notice.cancelRequested)).toEqual(cancelRequested);
    expect(decode(payloads).some(({ more }) => more)).toBe(false);
  });

  it('set `more` if the lists do not fit', () => {
    const payloads = encode({
      finished: Array.from({ length: 20_000 }, (_, i) => `instance ${i}`),
    });
    expect(payloads.length).toBeLessThanOrEqual(20);
    expect(decode(payloads)[0]?.more).toBe(true);
    expect(decode(encode({ finished: ['ü'.repeat(8_000)] }))[0]).toMatchObject({
      finished: [],
      more: true,
    });
  });

  it('of other programs on the channel decode to undefined', () => {
    for (const payload of [
      '',
      'hello',
      '{}',
      'null',
      '[]',
      '{"from":1}',
      '{"from":"a","kind":"x"}',
    ]) {
      expect(decodePayload(payload)).toBeUndefined();
    }
  });
});
