import type { PayloadCodec } from '../model/encoding/codec.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';

/** Options of `gzip()`. */
export interface GzipOptions {
  /** Smaller payloads are not compressed. Default: 1 KiB. */
  readonly minBytes?: number;
  /** Maximum size after decompression, so that a small payload cannot exhaust the memory. Default: 64 MiB. */
  readonly maxBytes?: number;
  /** Applied to the compressed bytes, for example `aesGcm()`. Default: none. */
  readonly inner?: PayloadCodec;
}

const plainMark = 0;
const gzipMark = 1;

/**
 * Compresses payloads, and passes them to another codec. The size of an encrypted payload then depends on its content: do
 * not combine secrets with text that an attacker chooses in one payload. Throws `INVALID_OPTION`.
 */
export function gzip(options: GzipOptions = {}): PayloadCodec {
  const given = readFields(options, 'gzip()', ['minBytes', 'maxBytes', 'inner']);
  const { minBytes = 1_024, maxBytes = 64 * 1_024 * 1_024, inner } = options;
  for (const [name, value] of Object.entries({ minBytes, maxBytes })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw invalidOption(name, value, 'a number of bytes');
    }
  }
  if (given.inner !== undefined && typeof inner?.encode !== 'function') {
    throw invalidOption('inner', given.inner, 'a codec');
  }

  const codec: PayloadCodec = {
    async encode(bytes, context) {
      const packed = await pack(bytes, minBytes);
      return inner === undefined ? { keyId: 'gzip', bytes: packed } : inner.encode(packed, context);
    },
    async decode(bytes, keyId) {
      const packed = inner === undefined ? bytes : await inner.decode(bytes, keyId);
      const content = packed.subarray(1);
      if (packed[0] === plainMark) return content;
      if (packed[0] !== gzipMark) throw new Error('the payload was not written by gzip().');
      return transform(content, new DecompressionStream('gzip'), maxBytes);
    },
  };
  const hash = inner?.hash?.bind(inner);
  return hash === undefined ? codec : { ...codec, hash };
}

async function pack(bytes: Uint8Array, minBytes: number): Promise<Uint8Array> {
  const compressed =
    bytes.length < minBytes
      ? undefined
      : await transform(bytes, new CompressionStream('gzip'), Infinity);
  const isSmaller = compressed !== undefined && compressed.length < bytes.length;
  const content = isSmaller ? compressed : bytes;
  const packed = new Uint8Array(1 + content.length);
  packed[0] = isSmaller ? gzipMark : plainMark;
  packed.set(content, 1);
  return packed;
}

// Streams exist in browsers too.
async function transform(
  bytes: Uint8Array,
  stream: CompressionStream | DecompressionStream,
  maxBytes: number,
): Promise<Uint8Array> {
  const source = new Blob([Uint8Array.from(bytes)]).stream();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of source.pipeThrough(stream)) {
    length += chunk.length;
    if (length > maxBytes) throw new Error(`the payload is larger than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  const all = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    all.set(chunk, offset);
    offset += chunk.length;
  }
  return all;
}
