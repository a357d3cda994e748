import type { z } from 'zod';

/** What a caller may do: look, run and stop work, or delete and administer. Each includes those before it. */
export type Role = 'read' | 'operate' | 'admin';

/** The roles, the weakest first. */
export const roles: readonly Role[] = ['read', 'operate', 'admin'];

/** One thing that can be asked of the server. Validation, roles, documents and the remote client all come from it. */
export interface RouteShape {
  /** Reads are GET and change nothing; everything else is a POST with a JSON body. */
  readonly method: 'GET' | 'POST';
  /** A segment in braces is a parameter. */
  readonly path: `/v1/${string}`;
  /** Who may ask. `public` needs no token. */
  readonly role: Role | 'public';
  /** One sentence for the reference. */
  readonly summary: string;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** What comes back: one JSON value, or each message of a stream of events. Absent: text. */
  readonly response?: z.ZodType;
  /** How it comes back. Default `json`. */
  readonly as?: 'json' | 'text' | 'events';
  /** Stops work or keeps it attached: waits for no place, and its body has a small limit and a budget of its own. */
  readonly urgent?: true;
  /** Its JSON may be of any size: it is written while it is read, and takes the seat of a stream. */
  readonly exports?: true;
  /** May stay open until something happens, for at most `longestPollMs`. */
  readonly waits?: true;
  /** Changes something and may have a large answer, which counts as unread. Asking again must do no harm. */
  readonly large?: true;
  /** The largest body in bytes, where it is not that of the server. */
  readonly bulk?: true;
}

/** Keeps the exact types of a route. */
export function route<const Shape extends RouteShape>(shape: Shape): Shape {
  return shape;
}

type Part<Shape, Key extends string> =
  Shape extends Readonly<Record<Key, infer Schema extends z.ZodType>>
    ? Readonly<Record<Key, z.output<Schema>>>
    : unknown;

/** What a route is asked with, decoded: its `params`, `query` and `body`, as far as it has them. */
export type RequestOf<Shape extends RouteShape> = Part<Shape, 'params'> &
  Part<Shape, 'query'> &
  Part<Shape, 'body'>;

/** What a route answers: the JSON value, or one message of its stream. */
export type ResponseOf<Shape extends RouteShape> = Shape extends {
  readonly response: infer Schema extends z.ZodType;
}
  ? z.output<Schema>
  : string;

/** No request waits longer for something to happen; whoever still wants to know asks again. */
export const longestPollMs = 30_000;

/** The values of a path's parameters, by name. */
export type PathParams = Readonly<Record<string, string>>;

/**
 * Writes the path of a route. Ids may be any text, but URLs swallow the segments `.` and `..`: those, and ids that
 * begin with a tilde, get a tilde in front.
 */
export function writePath(path: string, params: PathParams = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => writeSegment(params[name] ?? ''));
}

/** Reads the parameters of a path that fits a route; `undefined` where it does not fit or is not well encoded. */
export function readPath(pattern: string, path: string): PathParams | undefined {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const text = given[index] ?? '';
    if (!segment.startsWith('{')) {
      if (segment !== text) return undefined;
      continue;
    }
    const value = readSegment(text);
    if (value === undefined || value === '') return undefined;
    params[segment.slice(1, -1)] = value;
  }
  return params;
}

function writeSegment(value: string): string {
  const escaped = value === '.' || value === '..' || value.startsWith('~') ? `~${value}` : value;
  return encodeURIComponent(escaped);
}

function readSegment(text: string): string | undefined {
  try {
    const value = decodeURIComponent(text);
    return value.startsWith('~') ? value.slice(1) : value;
  } catch {
    return undefined;
  }
}
