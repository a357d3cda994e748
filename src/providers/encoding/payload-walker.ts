import type { SealContext } from '../../model/encoding/codec.ts';
import { isPerdureError, PerdureError } from '../../model/failures/errors.ts';
import type { Treatment, Walk } from './treatment.ts';
import { platform, nextIteration } from '../../model/platform.ts';

/** Replaces texts by what is stored, and back. */
export interface TextSealer {
  /** Whether texts stay readable, so that failures need not be hidden. */
  readonly isPlain: boolean;
  /** Returns the text to store. Rejects with `CODEC_FAILED`. */
  seal(text: string, context: SealContext): Promise<string>;
  /** Returns the text that was stored, or one that stands for an error. Never rejects. */
  open(text: string): Promise<string>;
  /** Returns a text that is equal for equal texts. Rejects with `CODEC_FAILED`. */
  hash(text: string): Promise<string>;
}

interface Found {
  readonly kind: 'text' | 'hash';
  readonly text: string;
  readonly context: SealContext;
}

/** Encodes and decodes the payloads of values. */
export class PayloadWalker {
  readonly #sealer: TextSealer;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(sealer: TextSealer) {
    this.#sealer = sealer;
  }

  /** Decodes the payloads of a value. Never rejects: see `PayloadSealer.open`. */
  readonly decode = async <T>(value: T, treatment: Treatment<T>): Promise<T> => {
    const found = this.#collect(value, treatment, 'decode');
    if (found.length === 0) return value;
    const texts = await Promise.all(found.map(({ text }) => this.#sealer.open(text)));
    return this.#replace(value, treatment, 'decode', texts);
  };

  /** Encodes the payloads of a value. Rejects with `CODEC_FAILED`. */
  readonly encode = async <T>(
    value: T,
    treatment: Treatment<T>,
    context: SealContext = {},
  ): Promise<T> => {
    const found = this.#collect(value, treatment, 'encode', context);
    if (found.length === 0) return value;
    return this.#replace(value, treatment, 'encode', await this.#seal(found));
  };

  /** Resolves when no value is being encoded and the calls that waited for one were made. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) {
      await Promise.allSettled(this.#pending);
      await nextIteration();
    }
  }

  /** Encodes each value. `fallback` returns what replaces one that cannot be encoded, or not within `maxMs`. */
  encodeEach<T>(
    values: readonly T[],
    treatment: Treatment<T>,
    fallback: (value: T, error: PerdureError) => T,
    maxMs?: number,
  ): Promise<T[]> {
    return Promise.all(
      values.map(async (value) => {
        try {
          const encoded = this.encode(value, treatment);
          return await (maxMs === undefined ? encoded : within(encoded, maxMs));
        } catch (error) {
          return fallback(value, toCodecError(error));
        }
      }),
    );
  }

  /** Encodes each item and writes those that were encoded. Returns one result per item, in order. */
  async writeEach<T, Result>(
    items: readonly T[],
    treatment: Treatment<T>,
    {
      call,
      failed,
    }: {
      readonly call: (encoded: readonly T[]) => Promise<readonly Result[]>;
      readonly failed: (error: PerdureError) => Result;
    },
  ): Promise<readonly Result[]> {
    const encoded = await Promise.all(
      items.map((item) =>
        this.encode(item, treatment).then(
          (value) => ({ value }),
          (error: unknown) => ({ error: toCodecError(error) }),
        ),
      ),
    );
    const ready = encoded.flatMap((one) => ('value' in one ? [one.value] : []));
    // A batch without any item may still be a call, for example of a provider that counts them.
    const results = ready.length > 0 || items.length === 0 ? await call(ready) : [];
    let next = 0;
    return encoded.map((one) => {
      if ('error' in one) return failed(one.error);
      const result = results[next] as Result;
      next += 1;
      return result;
    });
  }

  /** Encodes the payloads of a value in advance. The returned function encodes an equal value without waiting. */
  async prepare<T>(
    expected: T,
    treatment: Treatment<T>,
    context: SealContext,
  ): Promise<(value: T) => T | undefined> {
    const found = this.#collect(expected, treatment, 'encode', context);
    const texts = await this.#seal(found);
    return (value) => {
      const now = this.#collect(value, treatment, 'encode', context);
      const isSame =
        now.length === found.length && now.every(({ text }, index) => text === found[index]?.text);
      return isSame ? this.#replace(value, treatment, 'encode', texts) : undefined;
    };
  }

  #collect<T>(
    value: T,
    treatment: Treatment<T>,
    direction: Walk['direction'],
    context: SealContext = {},
  ): readonly Found[] {
    const found: Found[] = [];
    const add = (kind: Found['kind']) => (text: string) => {
      found.push({ kind, text, context: walk.context });
      return text;
    };
    const { isPlain } = this.#sealer;
    const walk: Walk = { direction, isPlain, context, text: add('text'), hash: add('hash') };
    treatment(value, walk);
    return found;
  }

  #replace<T>(
    value: T,
    treatment: Treatment<T>,
    direction: Walk['direction'],
    texts: readonly string[],
  ): T {
    let next = 0;
    const take = (): string => {
      const text = texts[next] as string;
      next += 1;
      return text;
    };
    const { isPlain } = this.#sealer;
    return treatment(value, { direction, isPlain, context: {}, text: take, hash: take });
  }

  #seal(found: readonly Found[]): Promise<readonly string[]> {
    const sealed = Promise.all(
      found.map(({ kind, text, context }) =>
        kind === 'hash' ? this.#sealer.hash(text) : this.#sealer.seal(text, context),
      ),
    );
    this.#pending.add(sealed);
    const forget = (): boolean => this.#pending.delete(sealed);
    sealed.then(forget, forget);
    return sealed;
  }
}

async function within<T>(encoded: Promise<T>, maxMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = platform.setTimeout(() => {
      reject(new PerdureError('CODEC_FAILED', `The codec took longer than ${maxMs} ms.`));
    }, maxMs);
  });
  try {
    return await Promise.race([encoded, late]);
  } finally {
    platform.clearTimeout(timer);
  }
}

function toCodecError(error: unknown): PerdureError {
  return isPerdureError(error)
    ? error
    : new PerdureError('CODEC_FAILED', 'The codec could not encode a payload.', { cause: error });
}
