import { describe, expect, it } from 'vitest';
import { decodeAnnouncement, encodeAnnouncement, type News } from './notifications.ts';

const quiet: News = {
  dueAt: {},
  finished: [],
  cancelRequested: [],
  emitted: [],
  statusSet: [],
  more: false,
};
const encode = (news: Partial<News>) =>
  encodeAnnouncement({ from: 'me', kind: 'news', ...quiet, ...news });
const decode = (payloads: readonly string[]) =>
  payloads.map((payload) => decodeAnnouncement(payload) as unknown as News);

describe('news', () => {
  it('come as they were sent', () => {
    const news = {
      dueAt: { work: 7 },
      finished: ['a', 'with \0 and \ud800'],
      cancelRequested: ['1.x'],
    };
    const streams = decode(encode({ ...news, emitted: ['s'] }));
    expect(streams.map(({ emitted }) => emitted)).toEqual([[], [], ['s']]);
    expect(decode(encode(news)).map(({ finished }) => finished)).toEqual([news.finished, []]);
    expect(decode(encode(news)).map(({ cancelRequested }) => cancelRequested)).toEqual([
      [],
      ['1.x'],
    ]);
    expect(decode(encode({ dueAt: { work: 7 } }))).toEqual([
      { from: 'me', kind: 'news', ...quiet, dueAt: { work: 7 } },
    ]);
  });

  it('fit into payloads of NOTIFY, two thousand lock tokens and all', () => {
    const cancelRequested = Array.from({ length: 2_000 }, (_, i) => `${i}.${'x'.repeat(22)}`);
    const payloads = encode({ cancelRequested });
    expect(Math.max(...payloads.map((payload) => Buffer.byteLength(payload)))).toBeLessThan(8_000);
    expect(decode(payloads).flatMap((news) => news.cancelRequested)).toEqual(cancelRequested);
    expect(decode(payloads).some(({ more }) => more)).toBe(false);
  });

  it('say that there is more where they do not fit', () => {
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

  it('are nothing where somebody else has used the channel', () => {
    for (const payload of [
      '',
      'hello',
      '{}',
      'null',
      '[]',
      '{"from":1}',
      '{"from":"a","kind":"x"}',
    ]) {
      expect(decodeAnnouncement(payload)).toBeUndefined();
    }
  });
});
