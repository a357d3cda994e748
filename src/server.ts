import './require-node.ts';

// HTTP server
export { createHandler } from './server/handler.ts';
export type { RequestHandler } from './server/handler.ts';
export type { HandlerOptions } from './server/handler.ts';
export type { ServerLimits } from './server/limits/limits.ts';
export type { Connection } from './server/request-pipeline.ts';
export { serve } from './server/serve.ts';
export { toNodeListener } from './server/http/node-listener.ts';
export type { NodeListener } from './server/http/node-listener.ts';
export type { PerdureServer, ServeOptions } from './server/serve.ts';
export { createToken } from './server/access/tokens.ts';
export type { ServerToken } from './server/access/tokens.ts';
export type { LoadTokens } from './server/access/tokens.ts';
export type {
  Authorize,
  AuthorizedCaller,
  AuthorizeRequest,
} from './server/access/authentication.ts';
export type { Role } from './server/routes/route.ts';

// OpenAPI document
export { makeOpenApi } from './server/open-api.ts';
