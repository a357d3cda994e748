import { parseJson } from './values/payload.ts';

/** The trace context that travels with instances, work items and messages. Never part of a history or an input hash. */
export interface TraceContext {
  /** W3C trace context, version 00. */
  readonly traceparent: string;
  readonly tracestate?: string;
  /** When the caller made the call, in milliseconds since the epoch. 0: unknown, stored by an unsampled caller. */
  readonly at: number;
  /** Spans link to this context instead of being its children. */
  readonly link?: true;
}

const codeOfA = 97;
const dash = 45;
const [digit0, digit9, codeOfF] = [48, 57, 102];
const traceparentLength = 55;
// The limit that W3C recommends to propagate at least.
const maxTracestateLength = 512;

/** A trace context of checked values. Only `createTrace` makes one. */
class CheckedTrace implements TraceContext {
  readonly #isSampled: boolean;
  readonly traceparent: string;
  readonly at: number;

  constructor(traceparent: string, at: number, sampled: boolean) {
    this.#isSampled = sampled;
    this.traceparent = traceparent;
    this.at = at;
  }

  /** Known without a read of the text, which is a tree of strings until then. */
  get isSampled(): boolean {
    return this.#isSampled;
  }
}

/** The ids of a trace context, for log lines. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** Whether the caller was sampled. Reads at most one digit, because this is on the path of every call. */
export function isSampled(trace: TraceContext): boolean {
  if (trace instanceof CheckedTrace) return trace.isSampled;
  const { traceparent } = trace;
  const code = traceparent.charCodeAt(traceparent.length - 1);
  // The codes of the digits 0 to 9 are as odd as the digits, those of `a` to `f` are not.
  return (code & 1) === (code < codeOfA ? 1 : 0);
}

/** Returns the ids of a trace context, which was checked when it was read. */
export function traceIdsOf({ traceparent }: TraceContext): TraceIds {
  return { traceId: traceparent.slice(3, 35), spanId: traceparent.slice(36, 52) };
}

// Formatting takes longer, and almost all flags are one of these.
const flagTexts = ['00', '01'];

/**
 * Returns the trace context of a span, or `undefined` for invalid ids. Checks the ids before it joins them: a read of the
 * joined text, which is a tree of strings, would copy it first.
 */
export function createTrace(
  span: TraceIds & { readonly traceFlags: number },
  at: number,
  tracestate?: string,
): TraceContext | undefined {
  const { traceId, spanId, traceFlags } = span;
  if (traceId.length !== 32 || !isId(traceId, 0, 32)) return undefined;
  if (spanId.length !== 16 || !isId(spanId, 0, 16)) return undefined;
  const flags = flagTexts[traceFlags] ?? (traceFlags & 0xff).toString(16).padStart(2, '0');
  const isSampledSpan = (traceFlags & 1) !== 0;
  const trace = new CheckedTrace(`00-${traceId}-${spanId}-${flags}`, at, isSampledSpan);
  return tracestate !== undefined && isTracestate(tracestate)
    ? Object.assign(trace, { tracestate })
    : trace;
}

/** Returns a trace context from request headers. Invalid values are dropped, as W3C requires. */
export function readTraceHeaders(
  headers: { get(name: string): string | null },
  at: number,
): TraceContext | undefined {
  const traceparent = headers.get('traceparent');
  if (traceparent === null || !isTraceparent(traceparent)) return undefined;
  const tracestate = headers.get('tracestate');
  const keepsState = tracestate !== null && isTracestate(tracestate);
  return { traceparent, ...(keepsState && { tracestate }), at };
}

// The first turn decodes what the start has just encoded.
let last: { readonly stored: string; readonly trace: TraceContext } | undefined;

/** Encodes a trace context for a store. */
export function encodeTrace(trace: TraceContext): string {
  const stored = toStored(trace);
  last = { stored, trace };
  return stored;
}

/** Unsampled work has no spans: it needs no time and no relation, and most work is unsampled. */
function toStored(trace: TraceContext): string {
  const { traceparent, tracestate, at, link } = trace;
  // Both are hexadecimal or a number, and need no escapes.
  if (tracestate !== undefined) return JSON.stringify(trace);
  if (!isSampled(trace)) return `"${traceparent}"`;
  return link === undefined ? `{"traceparent":"${traceparent}","at":${at}}` : JSON.stringify(trace);
}

/** Decodes a stored trace context. Returns `undefined` for an invalid one: telemetry must not fail work. */
export function decodeTrace(stored: string | null | undefined): TraceContext | undefined {
  if (stored === null || stored === undefined) return undefined;
  if (last?.stored === stored) return last.trace;
  try {
    return toTrace(parseJson(stored));
  } catch {
    return undefined;
  }
}

/** Reads the trace context from the stored options of a work item. */
export function traceOfOptions(options: string | null): TraceContext | undefined {
  if (options === null || !options.includes('"trace"')) return undefined;
  try {
    return toTrace((parseJson(options) as { readonly trace?: unknown } | null)?.trace);
  } catch {
    return undefined;
  }
}

/** Returns the context for work of the given execution: later executions link to it. */
export function traceOfExecution(
  trace: TraceContext | undefined,
  executionId: number,
): TraceContext | undefined {
  return trace === undefined || executionId === 1 ? trace : { ...trace, link: true };
}

/** Checks a trace context of unknown origin. */
export function toTrace(value: unknown): TraceContext | undefined {
  if (value instanceof CheckedTrace) return value;
  if (typeof value === 'string')
    return isTraceparent(value) ? { traceparent: value, at: 0 } : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  const { traceparent, tracestate, at, link } = value as Partial<Record<string, unknown>>;
  if (typeof traceparent !== 'string' || !isTraceparent(traceparent)) return undefined;
  if (tracestate === undefined && link === undefined && typeof at === 'number')
    return { traceparent, at };
  return {
    traceparent,
    ...(typeof tracestate === 'string' && isTracestate(tracestate) && { tracestate }),
    at: typeof at === 'number' ? at : 0,
    ...(link === true && { link }),
  };
}

/** Whether a text is a W3C `traceparent` of version 00. A regular expression takes three times as long, and each call is checked. */
function isTraceparent(text: string): boolean {
  return (
    text.length === traceparentLength &&
    text.startsWith('00-') &&
    text.charCodeAt(35) === dash &&
    text.charCodeAt(52) === dash &&
    isId(text, 3, 35) &&
    isId(text, 36, 52) &&
    isHex(text, 53, 55)
  );
}

/** Whether a part has hexadecimal digits alone, and not only zeros. */
function isId(text: string, from: number, to: number): boolean {
  let at = from;
  while (at < to && text.charCodeAt(at) === digit0) at += 1;
  return at < to && isHex(text, at, to);
}

function isHex(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (!((code >= digit0 && code <= digit9) || (code >= codeOfA && code <= codeOfF))) return false;
  }
  return true;
}

function isTracestate(text: string): boolean {
  return text.length <= maxTracestateLength && /^[\x20-\x7e]+$/.test(text);
}
