import { PerdureError } from '../failures/errors.ts';
import { invalidOption, showValue } from '../option-fields.ts';
import { byteLength } from './payload.ts';

/** Text by name that travels with a run: its handlers and its children read it. */
export type Headers = Readonly<Record<string, string>>;

/** Maximum headers of a run. */
const maxHeaders = 32;
/** Maximum length of the name of a header, in bytes. */
const maxHeaderNameBytes = 128;
/** Maximum length of all names and values together, in bytes. */
const maxHeadersBytes = 8_192;

/** The headers of a run without any. */
export const noHeaders: Headers = Object.freeze({});

/** Carries the id of the session of a job to its handlers. Hidden from `ctx.headers`. */
const sessionHeader = 'perdure-session';

/** Checks headers, and copies them. Throws `INVALID_OPTION`. `undefined` if there are none. */
export function checkHeaders(headers: unknown, what = 'headers'): Headers | undefined {
  const checked = checkAll(headers, what);
  if (checked?.[sessionHeader] === undefined) return checked;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid name "${sessionHeader}" of a header in \`${what}\`: the name is reserved.`,
  );
}

/** Adds the session of a job to its headers. */
export function withSession(headers: Headers | undefined, sessionId: string): Headers {
  return { ...headers, [sessionHeader]: sessionId };
}

/** Returns the id of the session in headers, if they have one. */
export function sessionOf(headers: Headers): string | undefined {
  return headers[sessionHeader];
}

/** Returns headers without those that are not the caller's. */
export function visibleHeaders(headers: Headers): Headers {
  if (headers[sessionHeader] === undefined) return headers;
  const { [sessionHeader]: _, ...visible } = headers;
  return visible;
}

function checkAll(headers: unknown, what: string): Headers | undefined {
  if (headers === undefined) return undefined;
  const entries = entriesOf(headers);
  if (entries === undefined) {
    throw invalidOption(what, headers, 'an object whose values are strings');
  }
  if (entries.length > maxHeaders) {
    throw new PerdureError(
      'INVALID_OPTION',
      `Too many headers in \`${what}\`: ${entries.length}. A run can have at most ${maxHeaders}.`,
    );
  }
  for (const [name, value] of entries) checkHeader(name, value, what);
  checkSize(entries as readonly (readonly [string, string])[], what);
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Headers);
}

/** Merges the headers of a call into those of its caller. Throws `INVALID_OPTION` if they are too many or too large. */
export function mergeHeaders(
  inherited: Headers | undefined,
  own: Headers | undefined,
): Headers | undefined {
  if (inherited === undefined || own === undefined) return own ?? inherited;
  const { [sessionHeader]: session, ...given } = inherited;
  const merged = checkAll({ ...given, ...own }, 'headers');
  return session === undefined ? merged : withSession(merged, session);
}

/** Whether a stored value is an object of strings. */
export function isHeaders(value: unknown): value is Headers {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((text) => typeof text === 'string');
}

// A revoked proxy throws.
function entriesOf(headers: unknown): [string, unknown][] | undefined {
  try {
    const isFields = Object.prototype.toString.call(headers) === '[object Object]';
    return isFields ? Object.entries(headers as object) : undefined;
  } catch {
    return undefined;
  }
}

const controlCharacter = /[\p{Cc}\p{Zl}\p{Zp}]/u;

function checkHeader(name: string, value: unknown, what: string): void {
  // A stored object loses the key `__proto__`.
  const isName =
    name !== '' &&
    name !== '__proto__' &&
    name.length <= maxHeaderNameBytes &&
    byteLength(name) <= maxHeaderNameBytes &&
    name.isWellFormed() &&
    !controlCharacter.test(name);
  if (!isName) {
    throw new PerdureError(
      'INVALID_OPTION',
      `Invalid name ${showValue(name)} of a header in \`${what}\`: use 1 to ${maxHeaderNameBytes} bytes of text without control characters.`,
    );
  }
  if (typeof value === 'string' && value.isWellFormed()) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid value ${showValue(value)} of header ${showValue(name)} in \`${what}\`: use text.`,
  );
}

function checkSize(entries: readonly (readonly [string, string])[], what: string): void {
  let bytes = 0;
  for (const [name, value] of entries) {
    // The length is a lower bound, so that a huge value is not encoded.
    bytes += value.length > maxHeadersBytes ? value.length : byteLength(name) + byteLength(value);
  }
  if (bytes <= maxHeadersBytes) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `The headers in \`${what}\` have more than ${maxHeadersBytes} bytes. Pass large values as input.`,
  );
}
