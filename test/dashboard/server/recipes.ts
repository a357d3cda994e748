import type { Express } from 'express';
import type { FastifyInstance } from 'fastify';
import type { Hono } from 'hono';
import { createServer, type Server } from 'node:http';
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

export function mountInExpress(
  app: Express,
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

export function mountInFastify(
  app: FastifyInstance,
  perdure: Perdure,
  tokens: readonly ServerToken[],
): void {
  const handler = dashboard(perdure, {
    basePath: '/admin/perdure/',
    tokens,
    allowedHosts: ['ops.example.com'],
  });
  const listener = toNodeListener(handler);
  void app.register(async (scope) => {
    // The handler reads the body itself.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    scope.all('/admin/perdure/*', (request, reply) => {
      void reply.hijack();
      listener(request.raw, reply.raw);
    });
  });
}

export function mountInHono(app: Hono, perdure: Perdure, tokens: readonly ServerToken[]): void {
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
