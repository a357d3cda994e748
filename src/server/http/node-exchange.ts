import type { IncomingMessage, ServerResponse } from 'node:http';

// Responses are written in pieces, to distinguish a slow reader from a stalled one.
const pieceBytes = 64 * 1024;

/** Converts a Node request to a web `Request`. Returns `undefined` for an invalid URL. */
export function toWebRequest(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = 'GET' } = incoming;
  // Express removes the mount path from `url`.
  const { originalUrl, url = '' } = incoming as IncomingMessage & { readonly originalUrl?: string };
  const target = originalUrl ?? url;
  // An absolute URL could name another host.
  if (!target.startsWith('/') || !URL.canParse(`http://server${target}`)) return undefined;
  const hasBody = method === 'POST';
  return new Request(`http://server${target}`, {
    method: isSupported(method) ? method : 'PATCH',
    headers: toHeaders(incoming),
    signal,
    ...(hasBody && { body: bodyOf(incoming), duplex: 'half' }),
  });
}

// `Request` throws for CONNECT, TRACE and TRACK. They are passed as PATCH, which no route allows either.
function isSupported(method: string): boolean {
  return /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/.test(method);
}

function toHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '');
  }
  return headers;
}

/** Reads the body lazily. Node discards what is left unread. */
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
            if (!incoming.complete)
              controller.error(new Error('The connection closed before the request was complete.'));
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

/** Sends a response. Drops the connection if the reader takes nothing for `stallMs`. */
export async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  stallMs: number,
): Promise<void> {
  const reader = response.body?.getReader();
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
    // The reader disconnected or stalled.
    outgoing.destroy();
    giveUp();
  } finally {
    outgoing.off('close', giveUp);
  }
}

/** Waits for an event. Rejects after `stallMs`, or when the connection closes first. */
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
    const timer = setTimeout(() => settle(new Error('The reader stalled.')), stallMs);
    outgoing.on(event, happened);
    outgoing.on('close', closed);
  });
}
