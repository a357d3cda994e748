/** What a stream of events needs besides its messages. */
export interface EventStreamOptions {
  readonly heartbeatMs: number;
  /** What to say of an error that ends the stream. */
  readonly toErrorData: (error: unknown) => object;
  /** Called once, however the stream ends; has to abort the signal, or a source that waits would go on waiting. */
  readonly onEnd: () => void;
  /** Aborts when the reader has left or the server shuts down; not an error unless `isRevoked` returns true. */
  readonly signal: AbortSignal;
  /** Whether the reader was cut off, and should be told why. */
  readonly isRevoked: () => boolean;
}

type Next = { readonly result: IteratorResult<unknown> } | { readonly error: unknown };

/**
 * Messages as server-sent events. The next message is only asked for when the last one was taken, so a slow reader
 * makes its source wait; while there is none a comment says that the stream is there.
 */
export function toEventStream(
  source: AsyncIterable<unknown>,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const messages = source[Symbol.asyncIterator]();
  let pending: Promise<Next> | undefined;
  let isOver = false;
  let isFirst = true;
  const finish = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    options.onEnd();
    await messages.return?.();
  };
  const take = async (): Promise<string | undefined> => {
    // Says at once that the stream is open.
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
        const text = isOver ? undefined : await take();
        if (text === undefined) controller.close();
        else controller.enqueue(encoder.encode(text));
      },
      cancel: finish,
    },
    { highWaterMark: 0 },
  );
}

function toEvent(message: unknown): string {
  const { seq } = message as { readonly seq?: number };
  // JSON has no line breaks, which would end the event.
  return `${seq === undefined ? '' : `id: ${seq}\n`}data: ${JSON.stringify(message)}\n\n`;
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
