import type { ActivityOptions, ActivityScheduled } from '../model/event.ts';

/** What a worker needs to know of a call besides its input: stored with the work item, opaque to the store. */
export interface WorkOptions extends ActivityOptions {
  /** Absent: `request`. */
  readonly cancellation?: 'wait' | 'abandon';
}

export function encodeWorkOptions({ options, cancellation }: ActivityScheduled): string | null {
  if (options === undefined && cancellation === undefined) return null;
  return JSON.stringify({ ...options, ...(cancellation !== undefined && { cancellation }) });
}

export function decodeWorkOptions(options: string | null): WorkOptions {
  return options === null ? {} : (JSON.parse(options) as WorkOptions);
}
