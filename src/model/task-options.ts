import { PerdureError } from './failures/errors.ts';
import { parseJson } from './values/payload.ts';

/** Text by name, handed from whoever runs a task to its handler. */
export type Headers = Readonly<Record<string, string>>;

const noHeaders: Headers = Object.freeze({});

/** What is stored with a task run besides its input: nothing, for most. */
export function encodeTaskOptions(headers: Headers | undefined): string | null {
  return headers === undefined || Object.keys(headers).length === 0
    ? null
    : JSON.stringify({ headers });
}

/** Reads the stored headers of a run; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeHeaders(stored: string | null): Headers {
  if (stored === null) return noHeaders;
  const headers = parse(stored);
  if (isHeaders(headers)) return headers;
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of a task run cannot be decoded. Were they written by a newer version, or damaged?',
  );
}

/** Whether a value is an object of texts. */
export function isHeaders(value: unknown): value is Headers {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((text) => typeof text === 'string');
}

function parse(stored: string): unknown {
  try {
    return (parseJson(stored) as { readonly headers?: unknown } | null)?.headers;
  } catch {
    return undefined;
  }
}
