const commonHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** How an answer is sent. */
export interface ResponseOptions {
  readonly status?: number;
  readonly requestId: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer of JSON, as text or as its bytes. */
export function jsonResponse(
  body: string | ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  return toResponse(body, 'application/json; charset=utf-8', options);
}

/** An answer of text, in the version of the format that Prometheus reads. */
export function textResponse(
  body: string | ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  return toResponse(body, 'text/plain; version=0.0.4; charset=utf-8', options);
}

/** An answer that goes on until one side ends it. */
export function eventResponse(
  stream: ReadableStream<Uint8Array>,
  options: ResponseOptions,
): Response {
  // Proxies that collect answers would hold events back.
  const headers = { ...options.headers, 'x-accel-buffering': 'no' };
  return toResponse(stream, 'text/event-stream; charset=utf-8', { ...options, headers });
}

/** The answer to a browser that asks first. */
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

// Small enough to send in one piece, so that a slow reader is told from one that reads nothing.
const pieceBytes = 64 * 1024;

/** Streams bytes that are in memory; calls `onEnd` once, when the reader has read all of them or has left. */
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
  // A reader who has gone before may never cancel.
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

/** How text is streamed. */
export interface TextStreamOptions {
  readonly signal: AbortSignal;
  /** Whether the stream is broken off, asked when the signal aborts. */
  readonly breaksOff: () => boolean;
  readonly onError: (error: unknown) => void;
  /** Called once, however the stream ends. */
  readonly onEnd: () => void;
}

/**
 * Streams text as it is made: the next part is only asked for when the last one was read. An error breaks it off, and so
 * does the signal, also while nothing is read.
 */
export function toTextStream(
  parts: AsyncIterable<string>,
  { signal, breaksOff, onError, onEnd }: TextStreamOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = parts[Symbol.asyncIterator]();
  let isOver = false;
  let breakOff = (): void => undefined;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    signal.removeEventListener('abort', breakOff);
    onEnd();
  };
  const stop = async (): Promise<void> => {
    end();
    await iterator.return?.();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        breakOff = () => {
          if (isOver || !breaksOff()) return;
          controller.error(signal.reason);
          stop().catch(() => undefined);
        };
        if (signal.aborted) breakOff();
        else signal.addEventListener('abort', breakOff, { once: true });
      },
      async pull(controller) {
        try {
          const next = await iterator.next();
          if (isOver) return;
          if (next.done !== true) {
            controller.enqueue(encoder.encode(next.value));
            return;
          }
          controller.close();
        } catch (error) {
          if (isOver) return;
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
