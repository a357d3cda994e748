import { decodeActivityOptions, type ActivityOptions } from '../../model/work-item-options.ts';
import type { ActivityScheduled } from '../../model/event.ts';

/** What a worker needs to know of a call besides its input: stored with the work item, opaque to the store. */
export interface WorkOptions extends ActivityOptions {
  /** Absent: `request`. */
  readonly cancellation?: 'wait' | 'abandon';
}

export function encodeWorkOptions({ options, cancellation }: ActivityScheduled): string | null {
  if (options === undefined && cancellation === undefined) return null;
  return JSON.stringify({ ...options, ...(cancellation !== undefined && { cancellation }) });
}

/** Reads stored options; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeWorkOptions(stored: string | null): WorkOptions {
  return decodeActivityOptions(stored);
}
