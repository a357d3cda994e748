import { describe, expect, it } from 'vitest';
import { decodeBody, readPayload, takeDecoded } from './encoded-value.ts';
import { PayloadSealer } from './payload-sealer.ts';

const sealer = new PayloadSealer({
  encode: (bytes) => ({ keyId: 'id', bytes }),
  decode: (bytes) => bytes,
});

describe('encoded values in responses', () => {
  it('a payload that the server cannot decode is decoded by the client', async () => {
    const sealed = await sealer.seal('{"a":1}', {});
    const value = readPayload(sealed);
    expect(value).toEqual({ $encoded: sealed });
    expect(() => takeDecoded(value)).toThrow(expect.objectContaining({ code: 'CODEC_FAILED' }));
    expect(takeDecoded(await decodeBody([value], sealer))).toEqual([{ a: 1 }]);
  });

  it('a value of the application with the property `$encoded` is returned as it is', async () => {
    for (const value of [{ $encoded: 'x' }, { $encoded: '~perdure!no' }, { $encoded: 1 }, null]) {
      expect(takeDecoded(value)).toBe(value);
      expect(await decodeBody(value, sealer)).toEqual(value);
    }
  });
});
