import type { PayloadCodec } from '../../src/model/encoding/codec.ts';

/** A synchronous codec for tests: a random nonce, then the bytes combined with it. */
export function xorCodec(keyId = 'xor'): PayloadCodec {
  return {
    encode(bytes) {
      const nonce = 1 + Math.floor(Math.random() * 255);
      const encoded = new Uint8Array(bytes.length + 1);
      encoded[0] = nonce;
      for (const [index, byte] of bytes.entries()) encoded[index + 1] = byte ^ nonce;
      return { keyId, bytes: encoded };
    },
    decode(bytes) {
      const [nonce = 0] = bytes;
      return bytes.subarray(1).map((byte) => byte ^ nonce);
    },
  };
}
