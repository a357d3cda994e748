/**
 * What happens to pending work that is no longer wanted. `request`: the caller goes on at once and the worker is
 * told to stop. `wait`: the worker is told, and the caller waits until it has stopped. `abandon`: the work goes on, unattended.
 */
export type CancellationType = 'request' | 'wait' | 'abandon';

/** A wish that an instance stop: why, and who asked. */
export interface CancelDetails {
  readonly reason: string;
  /** Who asked, if they said. */
  readonly actor: string | null;
}

/** A durable wish that an instance stop: the first one counts. */
export interface CancelRequest extends CancelDetails {
  readonly requestedAt: number;
}

const maxReasonLength = 4_096;
// A reason may come this way twice, on both ends of a connection: what was cut is not cut again.
const wasCut = /^.{1,4096}… \(cut from \d+ characters\)$/s;

/** Makes any value a reason that can be stored and shown: text, without control characters, of bounded length. */
export function cleanReason(reason: unknown): string {
  const text = typeof reason === 'string' ? reason : describe(reason);
  const shown = text.replaceAll(/\p{Cc}+/gu, ' ').trim();
  if (shown === '') return 'canceled';
  return shown.length <= maxReasonLength || wasCut.test(shown)
    ? shown.toWellFormed()
    : `${shown.slice(0, maxReasonLength).toWellFormed()}… (cut from ${shown.length} characters)`;
}

function describe(reason: unknown): string {
  if (reason === undefined || reason === null) return '';
  try {
    if (reason instanceof Error) return String(reason.message);
    const text = JSON.stringify(reason) as string | undefined;
    if (text !== undefined) return text;
  } catch {
    // What cannot be written as JSON is only named.
  }
  return `a value of type ${typeof reason}`;
}
