import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Perdure } from 'perdure';
import { dashboard } from 'perdure/dashboard';
import { toNodeListener, type ServerToken } from 'perdure/server';

export function serveWithNode(perdure: Perdure, tokens: readonly ServerToken[]): Server {
  const handler = dashboard(perdure, { tokens, allowedHosts: ['ops.example.com'] });
  const server = createServer(toNodeListener(handler));
  // Ends open streams, so that the server can close.
  server.on('close', () => handler.close());
  return server.listen(7373, '127.0.0.1');
}

type NodeListener = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/** The methods of an Express app that are used here: pass `express()`. */
interface ExpressApp {
  use(path: string, listener: NodeListener): unknown;
}

export function mountInExpress(
  app: ExpressApp,
  perdure: Perdure,
  tokens: readonly ServerToken[],
): void {
  const handler = dashboard(perdure, {
    basePath: '/admin/perdure/',
    tokens,
    allowedHosts: ['ops.example.com'],
  });
  // Before express.json(): the handler reads the body itself.
  app.use('/admin/perdure', toNodeListener(handler));
}

/** The methods of a Fastify instance that are used here: pass `fastify()`. */
interface FastifyApp {
  register(plugin: (scope: FastifyScope) => Promise<void>): unknown;
}
interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    parse: (request: unknown, payload: unknown, done: (error: null) => void) => void,
  ): unknown;
  all(
    path: string,
    handler: (
      request: { readonly raw: IncomingMessage },
      reply: { readonly raw: ServerResponse; hijack(): unknown },
    ) => void,
  ): unknown;
}

export function mountInFastify(
  app: FastifyApp,
  perdure: Perdure,
  tokens: readonly ServerToken[],
): void {
  const handler = dashboard(perdure, {
    basePath: '/admin/perdure/',
    tokens,
    allowedHosts: ['ops.example.com'],
  });
  const listener = toNodeListener(handler);
  app.register(async (scope) => {
    // The handler reads the body itself.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    scope.all('/admin/perdure/*', (request, reply) => {
      reply.hijack();
      listener(request.raw, reply.raw);
    });
  });
}

/** The methods of a Hono app that are used here: pass `new Hono()`. */
interface HonoApp {
  all(
    path: string,
    handler: (context: { readonly req: { readonly raw: Request } }) => Promise<Response>,
  ): unknown;
}

export function mountInHono(app: HonoApp, perdure: Perdure, tokens: readonly ServerToken[]): void {
  const handler = dashboard(perdure, {
    basePath: '/admin/perdure/',
    tokens,
    allowedHosts: ['ops.example.com'],
  });
  app.all('/admin/perdure/*', (context) => handler(context.req.raw));
}

/** In `app/admin/perdure/[[...path]]/route.ts`, export the result as `GET`, `POST` and `DELETE`. */
export function createNextRoute(
  perdure: Perdure,
  tokens: readonly ServerToken[],
): (request: Request) => Promise<Response> {
  const handler = dashboard(perdure, {
    basePath: '/admin/perdure/',
    tokens,
    allowedHosts: ['ops.example.com'],
  });
  return (request) => handler(request);
}
