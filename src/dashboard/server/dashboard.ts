import type { LocalClient } from '../../client/local-client.ts';
import { readFields } from '../../model/option-fields.ts';
import {
  handlerOptionNames,
  type HandlerOptions,
  type RequestHandler,
} from '../../server/handler.ts';
import { makeDashboard } from './dashboard-handler.ts';
import {
  readBasePath,
  readSettings,
  settingNames,
  type DashboardOptions,
  type DashboardSettings,
} from './options.ts';

/**
 * Creates a request handler with the dashboard and, below the same path, the API, to mount in your own HTTP server.
 * `serve` with `dashboard: true` includes a server. Requires `tokens`, `authorize` or `insecure: true`.
 */
export function dashboard(
  perdure: { readonly client: LocalClient },
  options: DashboardOptions,
): RequestHandler {
  return dashboardFrom(perdure, options, undefined);
}

/** Like `dashboard`, with the files of another folder. */
export function dashboardFrom(
  { client }: { readonly client: LocalClient },
  options: DashboardOptions,
  folder: string | undefined,
): RequestHandler {
  const where = 'dashboard()';
  readFields(options, where, [...handlerOptionNames, ...settingNames, 'basePath']);
  const { basePath, ...rest } = options;
  const { handlerOptions, settings } = split(rest);
  const { handler } = makeDashboard({
    client,
    options: handlerOptions,
    settings: readSettings(settings, where),
    basePath: readBasePath(basePath),
    where,
    folder,
  });
  return handler;
}

function split(options: HandlerOptions & DashboardSettings): {
  readonly handlerOptions: HandlerOptions;
  readonly settings: DashboardSettings;
} {
  const { readOnly, title, environment, links, sessionIdle, sessionMaxAge, ...rest } = options;
  const settings = { readOnly, title, environment, links, sessionIdle, sessionMaxAge };
  return { handlerOptions: rest, settings };
}
