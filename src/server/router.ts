import { HttpError } from './http/errors.ts';
import { readPath, type PathParams, type RouteShape } from './routes/route.ts';
import { routes, type RouteName } from './routes/table.ts';

/** A route that a request fits. */
export interface Match {
  readonly name: RouteName;
  readonly shape: RouteShape;
  readonly params: PathParams;
}

interface Candidate {
  readonly name: RouteName;
  readonly shape: RouteShape;
}

/** Finds the route of a request. */
export class Router {
  /** By the number of segments; those without parameters come first, so that a word is never taken for an id. */
  readonly #byLength = new Map<number, Candidate[]>();

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

  /** Throws a refusal where no route has this path, or none of those that have it this method. */
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
        'There is nothing here. See /v1/openapi.json for what there is.',
        {
          status: 404,
        },
      );
    }
    throw new HttpError('METHOD_NOT_ALLOWED', 'Reads are GET, everything else is POST.', {
      status: 405,
      headers: { allow: [...allowed].sort().join(', ') },
    });
  }
}

function parameterCount({ path }: RouteShape): number {
  return path.split('{').length;
}
