export interface EventStreamOptions {
  readonly heartbeatMs: number;
  /** Returns the data of the `error` event that ends a failed stream. */
  readonly toErrorData: (error: unknown) => object;
  /** Called once when the stream ends. Must abort `signal`, so that a waiting source stops. */
  readonly onEnd: () => void;
  /** Aborts when the reader disconnects or the server closes. Not an error unless `isRevoked` returns true. */
  readonly signal: AbortSignal;
  /** Whether the reader lost its access; then the stream ends with an `error` event. */
  readonly isRevoked: () => boolean;
}

type Next = { readonly result: IteratorResult<unknown> } | { readonly error: unknown };

/**
 * Encodes messages as server-sent events. Pulls the next message when the reader has taken the last one, which gives
 * backpressure. Sends a comment as a heartbeat while there is no message.
 */
export function toEventStream(
  source: AsyncIterable<unknown>,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const messages = source[Symbol.asyncIterator]();
  let pending: Promise<Next> | undefined;
  let hasEnded = false;
  let isFirst = true;
  const finish = async (): Promise<void> => {
    if (hasEnded) return;
    hasEnded = true;
    options.onEnd();
    await messages.return?.();
  };
  const nextChunk = async (): Promise<string | undefined> => {
    // The first chunk shows immediately that the stream is open.
    if (isFirst) {
      isFirst = false;
      return ': open\n\n';
    }
    pending ??= messages.next().then(
      (result): Next => ({ result }),
      (error: unknown): Next => ({ error }),
    );
    const next = await within(pending, options.heartbeatMs);
    if (next === undefined) return ': still here\n\n';
    pending = undefined;
    if ('error' in next) {
      const text =
        options.signal.aborted && !options.isRevoked()
          ? undefined
          : `event: error\ndata: ${JSON.stringify(options.toErrorData(next.error))}\n\n`;
      await finish();
      return text;
    }
    if (next.result.done === true) {
      await finish();
      return undefined;
    }
    return toEvent(next.result.value);
  };
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const text = hasEnded ? undefined : await nextChunk();
        if (text === undefined) controller.close();
        else controller.enqueue(encoder.encode(text));
      },
      cancel: finish,
    },
    { highWaterMark: 0 },
  );
}

function toEvent(message: unknown): string {
  const { seq, position, cursor } = message as {
    readonly seq?: number;
    readonly position?: string;
    readonly cursor?: string;
  };
  const id = seq ?? position ?? cursor;
  // `JSON.stringify` returns no line breaks, which would end the event.
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(message)}\n\n`;
}

async function within<Value>(promise: Promise<Value>, ms: number): Promise<Value | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
