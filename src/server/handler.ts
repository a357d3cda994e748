import type { LocalClient } from '../client/local-client.ts';
import { Admission } from './limits/admission.ts';
import { makeBackstage } from './server-context.ts';
import { readHandlerOptions, type CheckedOptions, type HandlerOptions } from './handler-options.ts';
import { RequestPipeline, type Connection } from './request-pipeline.ts';
import { ServerFigures } from './reading/server-metrics.ts';

/** Answers requests: a web-standard handler that any server can call. */
export interface RequestHandler {
  (request: Request, connection?: Connection): Promise<Response>;
  /** Ends streams and waits, and refuses what comes later. Idempotent. */
  close(): void;
}

/** Makes a handler for the API of a store, to be mounted into a server of your own; `serve` brings one along. */
export function createHandler(client: LocalClient, options: HandlerOptions): RequestHandler {
  return makeHandler(client, readHandlerOptions(options));
}

/** Makes a handler from options that were checked. */
export function makeHandler(client: LocalClient, checked: CheckedOptions): RequestHandler {
  const admission = new Admission(checked.limits);
  const figures = new ServerFigures(admission.gauges);
  const backstage = makeBackstage(client, checked, figures);
  const pipeline = new RequestPipeline({ ...checked, admission, figures, backstage });
  return Object.assign(
    (request: Request, connection: Connection = {}) => pipeline.answer(request, connection),
    { close: () => pipeline.close() },
  );
}
