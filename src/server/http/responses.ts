const commonHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

export interface ResponseOptions {
  readonly status?: number;
  readonly requestId: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Creates a JSON response from its text or its bytes. */
export function jsonResponse(
  body: string | ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  return toResponse(body, 'application/json; charset=utf-8', options);
}

/** Creates a text response in the exposition format of Prometheus. */
export function textResponse(
  body: string | ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  return toResponse(body, 'text/plain; version=0.0.4; charset=utf-8', options);
}

export function eventResponse(
  stream: ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  // Disables response buffering in nginx and similar proxies.
  const headers = { ...options.headers, 'x-accel-buffering': 'no' };
  return toResponse(stream, 'text/event-stream; charset=utf-8', { ...options, headers });
}

/** Creates the response to a CORS preflight. */
export function emptyResponse(options: ResponseOptions): Response {
  const { requestId, headers } = options;
  return new Response(null, {
    status: 204,
    headers: { ...commonHeaders, 'x-request-id': requestId, ...headers },
  });
}

function toResponse(
  body: string | ReadableStream<Uint8Array>,
  type: string,
  { status = 200, requestId, headers }: ResponseOptions,
): Response {
  return new Response(body, {
    status,
    headers: { ...commonHeaders, 'content-type': type, 'x-request-id': requestId, ...headers },
  });
}

// Pieces of this size distinguish a slow reader from a stalled one.
const pieceBytes = 64 * 1024;

/** Streams bytes from memory. Calls `onEnd` once, when all were read or the reader disconnects. */
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
  // A reader that disconnected earlier may never cancel the stream.
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
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

export interface TextStreamOptions {
  readonly signal: AbortSignal;
  /** Whether an abort of the signal ends the stream with an error. */
  readonly failsOnAbort: () => boolean;
  readonly onError: (error: unknown) => void;
  readonly onEnd: () => void;
}

/**
 * Streams text chunk by chunk: pulls the next chunk when the last one was read. An error of the source, or an abort of
 * the signal, ends the stream with an error.
 */
export function toTextStream(
  parts: AsyncIterable<string>,
  { signal, failsOnAbort, onError, onEnd }: TextStreamOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = parts[Symbol.asyncIterator]();
  let hasEnded = false;
  let onAbort = (): void => undefined;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    signal.removeEventListener('abort', onAbort);
    onEnd();
  };
  const stop = async (): Promise<void> => {
    end();
    await iterator.return?.();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        onAbort = () => {
          if (hasEnded || !failsOnAbort()) return;
          controller.error(signal.reason);
          stop().catch(() => undefined);
        };
        if (signal.aborted) onAbort();
        else signal.addEventListener('abort', onAbort, { once: true });
      },
      async pull(controller) {
        try {
          const next = await iterator.next();
          if (hasEnded) return;
          if (next.done !== true) {
            controller.enqueue(encoder.encode(next.value));
            return;
          }
          controller.close();
        } catch (error) {
          if (hasEnded) return;
          onError(error);
          controller.error(error);
        }
        end();
      },
      cancel: stop,
    },
    { highWaterMark: 0 },
  );
}
