import { describe, expect, it } from 'vitest';
import type { PayloadCodec } from './codec.ts';
import { isEncoded, isUndecoded, reasonOf } from './envelope.ts';
import { PayloadSealer } from './payload-sealer.ts';

const identity: PayloadCodec = {
  encode: (bytes) => ({ keyId: 'id', bytes }),
  decode: (bytes) => bytes,
};

describe('PayloadSealer', () => {
  it('open() returns the text that seal() got', async () => {
    const sealer = new PayloadSealer(identity);
    for (const text of ['null', '"a€😀"', '""', '{"a":[1,2,3]}', '\ufeff"bom"', 'no JSON', '']) {
      const sealed = await sealer.seal(text, {});
      expect(isEncoded(sealed)).toBe(true);
      expect(await sealer.open(sealed)).toBe(text);
    }
  });

  it('open() returns text that was stored without a codec', async () => {
    const sealer = new PayloadSealer(identity);
    for (const text of ['{"a":1}', '~', '~perdure', '']) expect(await sealer.open(text)).toBe(text);
  });

  it('seal() leaves an encoded text unchanged and rejects one that stands for an error', async () => {
    const sealer = new PayloadSealer(identity);
    const sealed = await sealer.seal('1', {});
    expect(await sealer.seal(sealed, {})).toBe(sealed);
    const failed = await new PayloadSealer({ ...identity, decode: () => new Uint8Array(1) }).open(
      sealed,
    );
    expect(isUndecoded(failed)).toBe(true);
    await expect(sealer.seal(failed, {})).rejects.toMatchObject({ code: 'CODEC_FAILED' });
  });

  it('seal() retries an encode() that fails', async () => {
    let calls = 0;
    const sealer = new PayloadSealer({
      ...identity,
      encode: (bytes) => {
        calls += 1;
        if (calls < 3) throw new Error('not yet');
        return { keyId: 'id', bytes };
      },
    });
    expect(await sealer.open(await sealer.seal('7', {}))).toBe('7');
    expect(calls).toBe(3);
  });

  it('seal() checks each new key, so that no payload is stored that cannot be decoded', async () => {
    let keyId = 'good';
    const sealer = new PayloadSealer({
      encode: (bytes) => ({ keyId, bytes }),
      decode: (bytes, id) => (id === 'good' ? bytes : bytes.subarray(1)),
    });
    await sealer.seal('1', {});
    keyId = 'bad';
    await expect(sealer.seal('1', {})).rejects.toMatchObject({
      code: 'CODEC_FAILED',
      message: expect.stringContaining('decode() does not return the bytes') as string,
    });
  });

  it('a codec that hangs times out', async () => {
    const never = (): Promise<never> => new Promise(() => undefined);
    const sealer = new PayloadSealer({ encode: never, decode: never }, { timeoutMs: 10 });
    await expect(sealer.seal('1', {})).rejects.toMatchObject({ code: 'CODEC_FAILED' });
    const sealed = await new PayloadSealer(identity).seal('1', {});
    expect(reasonOf(await sealer.open(sealed))).toContain('took longer than 10 ms');
  });

  it('a damaged envelope is undecodable, not an exception', async () => {
    const sealer = new PayloadSealer(identity);
    for (const text of ['~perdure1:', '~perdure1:id', '~perdure1:a b:xx', '~perdure1:id:!!']) {
      expect(isUndecoded(await sealer.open(text))).toBe(true);
    }
  });

  it('hash() is equal for equal texts and does not contain them', async () => {
    const sealer = new PayloadSealer(identity);
    expect(await sealer.hash('="secret"')).toBe(await sealer.hash('="secret"'));
    expect(await sealer.hash('="secret"')).not.toBe(await sealer.hash('="other"'));
    expect(await sealer.hash('="secret"')).not.toContain('secret');
  });
});
