/**
 * What happens to pending work that is no longer wanted. `request`: the caller goes on at once and the worker is
 * told to stop. `wait`: the worker is told, and the caller waits until it has stopped. `abandon`: the work goes on, unattended.
 */
export type CancellationType = 'request' | 'wait' | 'abandon';

/** A durable wish that an instance stop: the first one counts. */
export interface CancelRequest {
  readonly reason: string;
  /** Who asked, if they said. */
  readonly actor: string | null;
  readonly requestedAt: number;
}

const maxReasonLength = 4_096;

/** Makes any value a reason that can be stored and shown: text, without control characters, of bounded length. */
export function cleanReason(reason: unknown): string {
  const text = typeof reason === 'string' ? reason : describe(reason);
  const shown = text
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim();
  if (shown === '') return 'canceled';
  return shown.length <= maxReasonLength
    ? shown
    : `${shown.slice(0, maxReasonLength)}… (cut from ${shown.length} characters)`;
}

function describe(reason: unknown): string {
  if (reason === undefined || reason === null) return '';
  if (reason instanceof Error) return reason.message;
  try {
    return JSON.stringify(reason) ?? String(reason);
  } catch {
    return `a value of type ${typeof reason}`;
  }
}
