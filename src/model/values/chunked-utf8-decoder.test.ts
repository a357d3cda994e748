import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { ChunkedUtf8Decoder } from './chunked-utf8-decoder.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

it('decodes text from chunks of any size', () => {
  const text = 'aä€😀'.repeat(20_000);
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, 1_000, 16_384, 20_000, bytes.byteLength]) {
    const gatherer = new ChunkedUtf8Decoder({ fatal: true });
    for (let from = 0; from < bytes.byteLength; from += size) {
      gatherer.add(bytes.subarray(from, from + size));
    }
    expect(gatherer.end() === text).toBe(true);
  }
});

it('text in one-byte chunks takes at most a few times its size in memory', () => {
  const length = 2_000_000;
  const piece = new Uint8Array([0x78]);
  const gatherer = new ChunkedUtf8Decoder({ fatal: true });
  const before = heapUsed();
  for (let n = 0; n < length; n += 1) gatherer.add(piece);
  expect(heapUsed() - before).toBeLessThan(5 * length);
  expect(gatherer.end()).toHaveLength(length);
});

it('invalid UTF-8 throws with `fatal`, also at the end', () => {
  const refuses = new ChunkedUtf8Decoder({ fatal: true });
  refuses.add(new Uint8Array([0x61, 0x61]));
  refuses.add(new Uint8Array([0xe2]));
  expect(() => refuses.end()).toThrow(TypeError);
  const replaces = new ChunkedUtf8Decoder({ fatal: false });
  replaces.add(new Uint8Array([0x61, 0xff]));
  expect(replaces.end()).toBe('a\ufffd');
});
