import type { LocalClient } from '../../client/local-client.ts';
import { systemClock } from '../../model/clock.ts';
import {
  makePipeline,
  readHandlerOptions,
  type CheckedOptions,
  type HandlerOptions,
  type RequestHandler,
} from '../../server/handler.ts';
import { HttpError } from '../../server/http/errors.ts';
import type { Connection, RequestPipeline } from '../../server/request-pipeline.ts';
import { LoginSessions } from './login-sessions.ts';
import type { CheckedSettings } from './options.ts';
import { withSecurityHeaders } from './security-headers.ts';
import { SessionRoutes } from './session-routes.ts';
import { builtFolder, StaticFiles } from './static-files.ts';

export interface DashboardParams {
  readonly client: LocalClient;
  readonly options: HandlerOptions;
  readonly settings: CheckedSettings;
  readonly basePath: string;
  /** Name of the call in error messages. */
  readonly where: string;
  /** Whether a server listens on loopback alone, so that it needs no authentication. */
  readonly isLocal?: boolean;
  /** Folder of the static files. Default: the built dashboard. */
  readonly folder?: string | undefined;
}

/** Creates the handler of a dashboard: its files, its login, and the API below the same path. */
export function makeDashboard(params: DashboardParams): {
  readonly handler: RequestHandler;
  readonly checked: CheckedOptions;
} {
  const { client, options, settings, basePath, where, isLocal = false } = params;
  const clock = options.clock ?? systemClock;
  const { sessionIdleMs: idleMs, sessionMaxAgeMs: maxAgeMs } = settings;
  const sessions = new LoginSessions({ clock, idleMs, maxAgeMs, basePath });
  const checked = readHandlerOptions(options, { isLocal, sessions, where });
  const files = new StaticFiles(params.folder ?? builtFolder(), basePath);
  const { readOnly: isReadOnly } = settings;
  const { pipeline, admission } = makePipeline(client, checked, { isReadOnly });
  const routes = new SessionRoutes({
    authentication: checked.authentication,
    sessions,
    admission,
    settings,
    clock,
    requestMs: checked.limits.requestMs,
    onSignedOut: () => pipeline.recheckAccess((headers) => sessions.hasCookie(headers)),
  });
  const dashboard = new Dashboard({ pipeline, sessions, routes, files, checked, basePath });
  const handler = Object.assign(
    (request: Request, connection: Connection = {}) => dashboard.handle(request, connection),
    { close: () => pipeline.close() },
  );
  return { handler, checked };
}

interface Parts {
  readonly pipeline: RequestPipeline;
  readonly sessions: LoginSessions;
  readonly routes: SessionRoutes;
  readonly files: StaticFiles;
  readonly checked: CheckedOptions;
  readonly basePath: string;
}

/** Dispatches the requests of a dashboard. */
class Dashboard {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async handle(request: Request, connection: Connection): Promise<Response> {
    return withSecurityHeaders(await this.#dispatch(request, connection));
  }

  #dispatch(request: Request, connection: Connection): Promise<Response> {
    const { pipeline, routes, checked } = this.#parts;
    const path = this.#pathOf(request.url);
    if (path?.startsWith('v1/') === true || path === 'v1') {
      return pipeline.handle(this.#withoutBase(request, path), this.#countUse(request, connection));
    }
    if (path === 'session') {
      return pipeline.handleOther('dashboardSession', request, connection, async (requestId) => {
        checked.origins.checkHost(request.headers);
        return routes.handle({ request, connection, requestId });
      });
    }
    return pipeline.handleOther('dashboardFile', request, connection, async (requestId) => {
      const response = await this.#respondWithFile(request, path);
      response.headers.set('x-request-id', requestId);
      return response;
    });
  }

  /** Returns the path below the base, without its slash. `undefined` if it is outside. */
  #pathOf(url: string): string | undefined {
    const { basePath } = this.#parts;
    const start = url.indexOf('/', url.indexOf('//') + 2);
    const [path = ''] = url.slice(start).split(/[?#]/, 1);
    // Some hosts remove the last slash. The page has a base, so it works without.
    if (`${path}/` === basePath) return '';
    return path.startsWith(basePath) ? path.slice(basePath.length) : undefined;
  }

  /** Returns the request as the API expects it: below `/`. */
  #withoutBase(request: Request, path: string): Request {
    if (this.#parts.basePath === '/') return request;
    const url = new URL(request.url);
    url.pathname = `/${path}`;
    const { method, headers, signal, body } = request;
    const duplex = { duplex: 'half' } as const;
    return new Request(url, { method, headers, signal, ...(body !== null && { body, ...duplex }) });
  }

  /** Restarts the idle time of the session once a request was authenticated; a stream does so only when it opens. */
  #countUse({ headers }: Request, connection: Connection): Connection {
    const { sessions } = this.#parts;
    if (!sessions.hasCookie(headers)) return connection;
    const onAuthenticated = (): void => {
      connection.onAuthenticated?.();
      const session = sessions.get(headers);
      if (session !== undefined) sessions.touch(session);
    };
    return { ...connection, onAuthenticated };
  }

  async #respondWithFile(request: Request, path: string | undefined): Promise<Response> {
    const { files, checked } = this.#parts;
    const { method, headers } = request;
    const acceptsPage = (headers.get('accept') ?? '').toLowerCase().includes('text/html');
    const isPage = acceptsPage && path !== undefined && !isFile(path);
    // Other sites may link to a page, but use no file of it.
    if (isPage) checked.origins.checkHost(headers);
    else checked.origins.check(headers);
    if (method !== 'GET' && method !== 'HEAD') {
      throw new HttpError('METHOD_NOT_ALLOWED', 'Method not allowed. Use GET or HEAD.', {
        status: 405,
        headers: { allow: 'GET, HEAD' },
      });
    }
    const found = path === undefined ? undefined : files.respondWithFile(path, headers);
    const response = await (found ?? (isPage ? files.respondWithPage(headers) : undefined));
    if (response === undefined) {
      throw new HttpError('NO_SUCH_ROUTE', 'No such file.', { status: 404 });
    }
    return method === 'HEAD' ? new Response(null, response) : response;
  }
}

/** Whether a path names a file of the build, which is never replaced by the page. */
function isFile(path: string): boolean {
  return path.startsWith('assets/') || path.startsWith('/') || path.startsWith('session/');
}
