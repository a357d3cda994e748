import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from '../handler.ts';
import { sendResponse, toWebRequest } from './node-exchange.ts';

/** A request listener of `node:http`, and of frameworks that pass its requests on. */
export type NodeListener = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

// A reader that takes nothing for this long is disconnected.
const stallMs = 30_000;

/**
 * Converts a handler to a request listener for `node:http`, Express and Fastify. Pass requests on before a body parser
 * reads them. `serve` has limits for connections in addition.
 */
export function toNodeListener(handler: RequestHandler): NodeListener {
  return (incoming, outgoing) => void exchange(handler, incoming, outgoing);
}

async function exchange(
  handler: RequestHandler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once('close', () => gone.abort());
  // A write to a disconnected caller is not an error of the server.
  outgoing.on('error', () => gone.abort());
  try {
    const request = toWebRequest(incoming, gone.signal);
    if (request === undefined) {
      outgoing.writeHead(400, { connection: 'close' }).end();
      return;
    }
    const { remoteAddress } = incoming.socket;
    const response = await handler(request, { remoteAddress });
    await sendResponse(response, outgoing, stallMs);
  } catch {
    outgoing.destroy();
  }
}
