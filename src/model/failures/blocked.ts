import type { HistoryEvent } from '../event.ts';
import { parseJson } from '../values/payload.ts';

/** A recorded event, or a command of the code, without its payload. */
export interface EventSummary {
  readonly kind: HistoryEvent['kind'];
  /** The name of the activity, child, detached instance or external event. */
  readonly name?: string;
  readonly operation?: number;
  /** For operators: `activity "charge"`. */
  readonly text: string;
}

/** Why an instance is blocked. Stored as JSON text beside its reason. */
export interface BlockedDetails {
  /** The code of the error. `INTERNAL`: an error without a code. */
  readonly code: string;
  /** The name of the worker that blocked it. */
  readonly worker?: string;
  /** The event at which code and history disagree. */
  readonly eventId?: number;
  /** The event in the history. Absent if the history ends there. */
  readonly recorded?: EventSummary;
  /** The command of the code. Absent if the code issued none. */
  readonly issued?: EventSummary;
  /** The code that ran: a stack frame. Known for blocked event loops. */
  readonly location?: string;
}

/** Encodes the details of a blocked instance. */
export function encodeBlockedDetails(details: BlockedDetails): string {
  return JSON.stringify(details);
}

/** Decodes stored details. Damaged or missing ones have the code `INTERNAL`. */
export function decodeBlockedDetails(stored: string | null): BlockedDetails {
  const read = parse(stored);
  const { code, worker, eventId, recorded, issued, location } = read;
  return {
    code: typeof code === 'string' ? code : 'INTERNAL',
    ...(typeof worker === 'string' && { worker }),
    ...(typeof eventId === 'number' && { eventId }),
    ...(isSummary(recorded) && { recorded }),
    ...(isSummary(issued) && { issued }),
    ...(typeof location === 'string' && { location }),
  };
}

function parse(stored: string | null): Readonly<Record<string, unknown>> {
  try {
    const value = stored === null ? null : parseJson(stored);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isSummary(value: unknown): value is EventSummary {
  return isObject(value) && typeof value['kind'] === 'string' && typeof value['text'] === 'string';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
