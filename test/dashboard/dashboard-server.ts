import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dashboardFrom } from '../../src/dashboard/server/dashboard.ts';
import type { DashboardSettings } from '../../src/dashboard.ts';
import type { Perdure } from '../../src/index.ts';
import {
  createToken,
  toNodeListener,
  type HandlerOptions,
  type Role,
  type ServeOptions,
} from '../../src/server.ts';
import { serveFrom } from '../../src/server/serve.ts';

/** How a test serves its dashboard. */
export interface DashboardServerOptions {
  /** Title, environment, links and the like. */
  readonly dashboard?: DashboardSettings;
  readonly serve?: Omit<ServeOptions, 'dashboard' | 'port' | 'host' | 'tokens'>;
  /** Requires a login. Default: no authentication. */
  readonly login?: boolean;
  /** The path at which the dashboard is mounted. Default: `/`. */
  readonly basePath?: string;
  /** Folder of the static files. Default: the built dashboard. */
  readonly folder?: string;
}

/** A dashboard over HTTP on 127.0.0.1. */
export interface DashboardServer {
  /** Its address, with a slash at the end. */
  readonly url: string;
  close(): Promise<void>;
}

type ServerParams = DashboardServerOptions & {
  readonly port: number;
  readonly tokens: NonNullable<HandlerOptions['tokens']>;
  readonly clock?: HandlerOptions['clock'];
};

/** `serve()` mounts the dashboard at `/`. Below another path it is mounted in a server of the host, as users do. */
export async function startDashboard(
  perdure: Perdure,
  params: ServerParams,
): Promise<DashboardServer> {
  const { port, tokens, clock, login = false, basePath = '/', folder, dashboard = {} } = params;
  const common = {
    ...params.serve,
    ...(login && { tokens }),
    ...(clock !== undefined && { clock }),
  };
  if (basePath === '/') {
    const options = { ...common, host: '127.0.0.1', port, dashboard };
    const server = await serveFrom(perdure, options, folder);
    return { url: new URL('/', server.url).href, close: () => server.close() };
  }
  const access = login ? {} : ({ insecure: true } as const);
  const handler = dashboardFrom(perdure, { ...common, ...access, ...dashboard, basePath }, folder);
  const server = createServer(toNodeListener(handler));
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${taken}${basePath}`,
    async close() {
      handler.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}

/** Creates one token per role. */
export function makeTokens() {
  const roles = ['read', 'operate', 'admin'] as const satisfies readonly Role[];
  const made = roles.map((role) => ({ role, ...createToken() }));
  return {
    list: made.map(({ role, sha256 }) => ({ name: `${role} token`, role, sha256 })),
    byRole: Object.fromEntries(made.map(({ role, token }) => [role, token])) as Record<
      Role,
      string
    >,
  };
}
