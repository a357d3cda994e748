const everyAnswer: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** How an answer is sent. */
export interface AnswerOptions {
  readonly status?: number;
  readonly requestId: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer of JSON, as text or as its bytes. */
export function jsonAnswer(
  body: string | ReadableStream<Uint8Array>,
  options: AnswerOptions,
): Response {
  return answer(body, 'application/json; charset=utf-8', options);
}

/** An answer of text, in the version of the format that Prometheus reads. */
export function textAnswer(
  body: string | ReadableStream<Uint8Array>,
  options: AnswerOptions,
): Response {
  return answer(body, 'text/plain; version=0.0.4; charset=utf-8', options);
}

/** An answer that goes on until one side ends it. */
export function eventAnswer(stream: ReadableStream<Uint8Array>, options: AnswerOptions): Response {
  // Proxies that collect answers would hold events back.
  const headers = { ...options.headers, 'x-accel-buffering': 'no' };
  return answer(stream, 'text/event-stream; charset=utf-8', { ...options, headers });
}

/** The answer to a browser that asks first. */
export function emptyAnswer(options: AnswerOptions): Response {
  const { requestId, headers } = options;
  return new Response(null, {
    status: 204,
    headers: { ...everyAnswer, 'x-request-id': requestId, ...headers },
  });
}

function answer(
  body: string | ReadableStream<Uint8Array>,
  type: string,
  { status = 200, requestId, headers }: AnswerOptions,
): Response {
  return new Response(body, {
    status,
    headers: { ...everyAnswer, 'content-type': type, 'x-request-id': requestId, ...headers },
  });
}
