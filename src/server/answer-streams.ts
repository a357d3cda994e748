// Small enough to send in one piece, so that a slow reader is told from one that reads nothing.
const pieceBytes = 64 * 1024;

/** Streams bytes that are in memory; calls `onEnd` once, when all were read, or nobody reads on. */
export function toByteStream(
  bytes: Uint8Array,
  signal: AbortSignal,
  onEnd: () => void,
): ReadableStream<Uint8Array> {
  let from = 0;
  const end = (): void => {
    signal.removeEventListener('abort', end);
    onEnd();
  };
  signal.addEventListener('abort', end, { once: true });
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        controller.enqueue(bytes.subarray(from, from + pieceBytes));
        from += pieceBytes;
        if (from < bytes.byteLength) return;
        controller.close();
        end();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** Streams text as it is made: the next part is only asked for when the last one was read. An error breaks it off. */
export function toTextStream(
  parts: AsyncIterable<string>,
  options: { readonly onError: (error: unknown) => void; readonly onEnd: () => void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = parts[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await iterator.next();
          if (next.done !== true) {
            controller.enqueue(encoder.encode(next.value));
            return;
          }
          controller.close();
        } catch (error) {
          options.onError(error);
          controller.error(error);
        }
        options.onEnd();
      },
      async cancel() {
        options.onEnd();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
