import type { EncodeContext } from '../../model/encoding/codec.ts';
import {
  externalEnvelope,
  isEncoded,
  isUndecoded,
  encodedError,
  readExternalKey,
  undecoded,
} from '../../model/encoding/envelope.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import { byteLength } from '../../model/values/payload.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { describeError, getExternal, putExternal } from './external-calls.ts';
import { payloadKey } from './external-keys.ts';
import type { TextSealer } from './payload-walker.ts';

/** Moves large texts to another store, after another sealer has encoded them. */
export class ExternalSealer implements TextSealer {
  readonly isPlain: boolean;
  readonly #store: ExternalPayloadStore;
  readonly #aboveBytes: number;
  readonly #inner: TextSealer;

  constructor(inner: TextSealer, store: ExternalPayloadStore, aboveBytes: number) {
    this.isPlain = inner.isPlain;
    this.#inner = inner;
    this.#store = store;
    this.#aboveBytes = aboveBytes;
  }

  async seal(text: string, context: EncodeContext): Promise<string> {
    const { instanceId } = context;
    if (isEncoded(text)) {
      if (isUndecoded(text)) throw encodedError(text);
      return text;
    }
    const sealed = await this.#inner.seal(text, context);
    // Without an owner, the payload could not be deleted with it.
    const isLarge = text.length * 3 > this.#aboveBytes && byteLength(text) > this.#aboveBytes;
    if (!isLarge || instanceId === undefined) return sealed;
    const key = payloadKey(instanceId, randomToken());
    await putExternal(this.#store, {
      key,
      bytes: new TextEncoder().encode(sealed),
      what: 'a payload',
    });
    return externalEnvelope(key);
  }

  async open(text: string): Promise<string> {
    const key = readExternalKey(text);
    if (key === undefined) return this.#inner.open(text);
    try {
      const bytes = await getExternal(this.#store, key);
      if (bytes === undefined) return undecoded('An external payload is missing in its store.');
      return await this.#inner.open(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    } catch (error) {
      return undecoded(`The external store could not read a payload: ${describeError(error)}`);
    }
  }

  hash(text: string): Promise<string> {
    return this.#inner.hash(text);
  }
}

/** Stores texts as they are. */
export const plainSealer: TextSealer = {
  isPlain: true,
  seal: (text) => Promise.resolve(text),
  open: (text) => Promise.resolve(text),
  hash: (text) => Promise.resolve(text),
};
