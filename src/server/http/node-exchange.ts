import type { IncomingMessage, ServerResponse } from 'node:http';

// Answers go out in pieces, so that a reader who takes them slowly is told from one who takes nothing.
const pieceBytes = 64 * 1024;

/** A request of Node as the web knows it; `undefined` where its address cannot be one. */
export function toWebRequest(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = 'GET', url = '' } = incoming;
  // An absolute address, or one with two slashes, would name a host of its own.
  if (!url.startsWith('/') || !URL.canParse(`http://server${url}`)) return undefined;
  const hasBody = method === 'POST';
  return new Request(`http://server${url}`, {
    method: isOrdinary(method) ? method : 'HEAD',
    headers: toHeaders(incoming),
    signal,
    ...(hasBody && { body: bodyOf(incoming), duplex: 'half' }),
  });
}

// Fetch knows no CONNECT, TRACE or TRACK; whatever it is, it is not allowed, as HEAD is not.
function isOrdinary(method: string): boolean {
  return /^(GET|POST|PUT|PATCH|DELETE|OPTIONS)$/.test(method);
}

function toHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '');
  }
  return headers;
}

/** The body, read only as far as somebody asks for it; what nobody reads Node takes off the wire by itself. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let isAttached = false;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (!isAttached) {
          isAttached = true;
          incoming.on('data', (chunk: Buffer) => {
            incoming.pause();
            controller.enqueue(chunk);
          });
          incoming.once('end', () => controller.close());
          incoming.once('close', () => {
            if (!incoming.complete) controller.error(new Error('The request was cut off.'));
          });
        }
        incoming.resume();
      },
      cancel() {
        incoming.removeAllListeners('data');
        incoming.removeAllListeners('end');
        incoming.resume();
      },
    },
    { highWaterMark: 0 },
  );
}

/** Sends an answer; a reader who takes nothing for so long is cut off. */
export async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  stallMs: number,
): Promise<void> {
  const reader = response.body?.getReader();
  // Whatever it was about to say, nobody hears it.
  const giveUp = (): void => void reader?.cancel().catch(() => undefined);
  if (outgoing.destroyed) return giveUp();
  outgoing.once('close', giveUp);
  try {
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    for (;;) {
      const chunk = await reader?.read();
      if (chunk?.value === undefined) break;
      for (let from = 0; from < chunk.value.byteLength; from += pieceBytes) {
        const piece = chunk.value.subarray(from, from + pieceBytes);
        if (!outgoing.write(piece)) await next(outgoing, 'drain', stallMs);
      }
    }
    outgoing.end();
    if (!outgoing.writableFinished) await next(outgoing, 'finish', stallMs);
  } catch {
    // The reader is gone or takes nothing: there is nobody left to tell.
    outgoing.destroy();
    giveUp();
  } finally {
    outgoing.off('close', giveUp);
  }
}

/** Waits for an event; rejects when the connection closes first, or too much time passes. */
function next(outgoing: ServerResponse, event: 'drain' | 'finish', stallMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    if (outgoing.destroyed) return reject(new Error('The connection is closed.'));
    const settle = (error?: Error): void => {
      clearTimeout(timer);
      outgoing.off(event, happened);
      outgoing.off('close', closed);
      if (error === undefined) resolve();
      else reject(error);
    };
    const happened = (): void => settle();
    const closed = (): void => settle(new Error('The connection is closed.'));
    const timer = setTimeout(() => settle(new Error('The reader takes nothing.')), stallMs);
    outgoing.on(event, happened);
    outgoing.on('close', closed);
  });
}
