import type { z } from 'zod';

/** Rights of a caller: read, start and stop work, or delete and administer. Each includes those before it. */
export type Role = 'read' | 'operate' | 'admin';

/** All roles, the weakest first. */
export const roles: readonly Role[] = ['read', 'operate', 'admin'];

/** A route. Validation, roles, the API reference and the remote client derive from it. */
export interface RouteShape {
  /** GET for reads, POST with a JSON body for everything else. */
  readonly method: 'GET' | 'POST';
  /** Segments in braces are parameters. */
  readonly path: `/v1/${string}`;
  /** The required role. `public` needs no token. */
  readonly role: Role | 'public';
  /** Description for the API reference. */
  readonly summary: string;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The JSON value of the response, or a message of its event stream. Absent: text. */
  readonly response?: z.ZodType;
  /** Format of the response. Default: `json`. */
  readonly as?: 'json' | 'text' | 'events';
  /** Of a `public` route: the limits apply, by the address of the caller. */
  readonly isLimited?: true;
  /** Stops work or renews a lease: bypasses queues and rate limits. Its small body has a separate budget. */
  readonly urgent?: true;
  /** The JSON has no size limit: it is streamed, and counts as a stream. */
  readonly exports?: true;
  /** A long poll: stays open for at most `longestPollMs`. */
  readonly waits?: true;
  /** A write with a large response, which counts against the response budget. Must be idempotent. */
  readonly large?: true;
  /** A batch request: its body may have `bulkBodyBytes`. */
  readonly bulk?: true;
}

/** Defines a route with its exact types. */
export function route<const Shape extends RouteShape>(shape: Shape): Shape {
  return shape;
}

type Part<Shape, Key extends string> =
  Shape extends Readonly<Record<Key, infer Schema extends z.ZodType>>
    ? Readonly<Record<Key, z.output<Schema>>>
    : unknown;

/** The decoded `params`, `query` and `body` of a route. */
export type RequestOf<Shape extends RouteShape> = Part<Shape, 'params'> &
  Part<Shape, 'query'> &
  Part<Shape, 'body'>;

/** The JSON value of a response, or one message of its stream. */
export type ResponseOf<Shape extends RouteShape> = Shape extends {
  readonly response: infer Schema extends z.ZodType;
}
  ? z.output<Schema>
  : string;

/** Maximum duration of a long poll, in milliseconds. */
export const longestPollMs = 30_000;

/** Values of path parameters by name. */
export type PathParams = Readonly<Record<string, string>>;

/**
 * Formats the path of a route. URL parsers remove the segments `.` and `..`, so these ids, and ids that begin with `~`,
 * get the prefix `~`.
 */
export function writePath(path: string, params: PathParams = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => writeSegment(params[name] ?? ''));
}

/** Parses a path. Returns `undefined` if it does not match the pattern or is not encoded correctly. */
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
