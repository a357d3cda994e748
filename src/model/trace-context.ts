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
// Formatting takes longer, and almost all flags are one of these.
const flagTexts = ['00', '01'];

/**
 * A trace context of checked ids. Only `createTrace` and `unsampledTrace` make one. The text is joined when it is read: most
 * callers are not sampled, and their text is never needed.
 */
class CheckedTrace implements TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
  readonly at: number;
  declare readonly tracestate?: string;

  constructor(traceId: string, spanId: string, flags: number, at: number) {
    this.traceId = traceId;
    this.spanId = spanId;
    this.flags = flags;
    this.at = at;
  }

  get traceparent(): string {
    const flags = flagTexts[this.flags] ?? (this.flags & 0xff).toString(16).padStart(2, '0');
    return `00-${this.traceId}-${this.spanId}-${flags}`;
  }

  /** The plain form, for messages. */
  toJSON(): TraceContext {
    const { traceparent, tracestate, at } = this;
    return { traceparent, ...(tracestate !== undefined && { tracestate }), at };
  }
}

/** The ids of a trace context, for log lines. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** Whether the caller was sampled. Reads at most one digit, because this is on the path of every call. */
export function isSampled(trace: TraceContext): boolean {
  if (trace instanceof CheckedTrace) return (trace.flags & 1) !== 0;
  const { traceparent } = trace;
  const code = traceparent.charCodeAt(traceparent.length - 1);
  // The codes of the digits 0 to 9 are as odd as the digits, those of `a` to `f` are not.
  return (code & 1) === (code < codeOfA ? 1 : 0);
}

/** Returns the ids of a trace context, which was checked when it was read. */
export function traceIdsOf(trace: TraceContext): TraceIds {
  if (trace instanceof CheckedTrace) return { traceId: trace.traceId, spanId: trace.spanId };
  const { traceparent } = trace;
  return { traceId: traceparent.slice(3, 35), spanId: traceparent.slice(36, 52) };
}

/** Returns the trace context of a span, or `undefined` for invalid ids. */
export function createTrace(
  span: TraceIds & { readonly traceFlags: number },
  at: number,
  tracestate?: string,
): TraceContext | undefined {
  const { traceId, spanId, traceFlags } = span;
  if (traceId.length !== 32 || !isId(traceId, 0, 32)) return undefined;
  if (spanId.length !== 16 || !isId(spanId, 0, 16)) return undefined;
  const trace = new CheckedTrace(traceId, spanId, traceFlags, at);
  return tracestate !== undefined && isTracestate(tracestate)
    ? Object.assign(trace, { tracestate })
    : trace;
}

/**
 * Returns the context of an unsampled caller, of which only the trace id is stored. The span of the caller was not recorded,
 * so that its id names nothing. A part of the trace id replaces it, because W3C requires one.
 */
function unsampledTrace(traceId: string): TraceContext | undefined {
  if (traceId.length !== 32 || !isId(traceId, 0, 32)) return undefined;
  const spanId = isId(traceId, 16, 32) ? traceId.slice(16) : traceId.slice(0, 16);
  return new CheckedTrace(traceId, spanId, 0, 0);
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

/** Encodes a trace context for the column of an instance. */
export function encodeTrace(trace: TraceContext): string {
  const stored = isReduced(trace) ? traceIdsOf(trace).traceId : toJson(trace);
  last = { stored, trace };
  return stored;
}

/** Encodes a trace context as JSON, for the options of a work item. */
export function encodeTraceJson(trace: TraceContext): string {
  return isReduced(trace) ? `"${traceIdsOf(trace).traceId}"` : toJson(trace);
}

/** Whether only the trace id is stored. Unsampled work has no spans: it needs no time and no relation. */
function isReduced(trace: TraceContext): boolean {
  return trace.tracestate === undefined && !isSampled(trace);
}

function toJson(trace: TraceContext): string {
  const { traceparent, tracestate, at, link } = trace;
  // Both are hexadecimal or a number, and need no escapes.
  return tracestate === undefined && link === undefined
    ? `{"traceparent":"${traceparent}","at":${at}}`
    : JSON.stringify(trace);
}

/** Decodes a stored trace context. Returns `undefined` for an invalid one: telemetry must not fail work. */
export function decodeTrace(stored: string | null | undefined): TraceContext | undefined {
  if (stored === null || stored === undefined) return undefined;
  if (last?.stored === stored) return last.trace;
  if (!stored.startsWith('{')) return unsampledTrace(stored);
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
  return trace === undefined || executionId === 1 ? trace : toLink(trace);
}

/** Returns the context to which later work links. */
export function toLink(trace: TraceContext): TraceContext {
  const { traceparent, tracestate, at } = trace;
  return { traceparent, ...(tracestate !== undefined && { tracestate }), at, link: true };
}

/** Checks a trace context of unknown origin. */
export function toTrace(value: unknown): TraceContext | undefined {
  if (value instanceof CheckedTrace) return value;
  if (typeof value === 'string') return unsampledTrace(value);
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
