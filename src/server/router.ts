import { HttpError } from './http/errors.ts';
import { readPath, type PathParams, type RouteShape } from './routes/route.ts';
import { routes, type RouteName } from './routes/table.ts';

/** The route of a request, with the values of its path parameters. */
export interface Match {
  readonly name: RouteName;
  readonly shape: RouteShape;
  readonly params: PathParams;
}

/** Finds the route for a method and a path. */
export class Router {
  /** By number of segments. Fixed paths come first, so that `/wait` never matches `/{id}`. */
  readonly #byLength = new Map<number, Omit<Match, 'params'>[]>();

  constructor() {
    const all = Object.entries<RouteShape>(routes).sort(
      ([, one], [, other]) => parameterCount(one) - parameterCount(other),
    );
    for (const [name, shape] of all) {
      const length = shape.path.split('/').length;
      const same = this.#byLength.get(length) ?? [];
      same.push({ name: name as RouteName, shape });
      this.#byLength.set(length, same);
    }
  }

  /** Throws 404 for an unknown path, and 405 for a method that the path does not have. */
  match(method: string, path: string): Match {
    const allowed = new Set<string>();
    for (const { name, shape } of this.#byLength.get(path.split('/').length) ?? []) {
      const params = readPath(shape.path, path);
      if (params === undefined) continue;
      if (shape.method === method) return { name, shape, params };
      allowed.add(shape.method);
    }
    if (allowed.size === 0) {
      throw new HttpError(
        'NO_SUCH_ROUTE',
        'No such route. See /v1/openapi.json for the available routes.',
        {
          status: 404,
        },
      );
    }
    throw new HttpError(
      'METHOD_NOT_ALLOWED',
      'Method not allowed. Use GET to read and POST for everything else.',
      {
        status: 405,
        headers: { allow: [...allowed].sort().join(', ') },
      },
    );
  }
}

function parameterCount({ path }: RouteShape): number {
  return path.split('{').length;
}
