/**
 * What happens to a call when it is canceled. `request`: the handler is signaled, and the caller continues immediately.
 * `wait`: the handler is signaled, and the caller waits until it has stopped. `abandon`: the handler runs on.
 */
export type CancellationType = 'request' | 'wait' | 'abandon';

/** Why a cancel was requested, and by whom. */
export interface CancelDetails {
  readonly reason: string;
  /** The `actor` that the caller passed. */
  readonly actor: string | null;
  /** `timeout`: the timeout of the instance has passed. Absent: a request. */
  readonly trigger?: 'timeout';
}

/** Copies the fields of `CancelDetails` from a message, an event or a record. */
export function toCancelDetails({ reason, actor, trigger }: CancelDetails): CancelDetails {
  return trigger === undefined ? { reason, actor } : { reason, actor, trigger };
}

/** The cancel request of an instance. Later requests are dropped. */
export interface CancelRequest extends CancelDetails {
  readonly requestedAt: number;
}

const maxReasonLength = 4_096;
// Client and server both clean a reason, so a reason that was cut is not cut again.
const wasCut = /^.{1,4096}… \(cut from \d+ characters\)$/s;

/** Converts any value to a cancel reason: text without control characters, at most 4,096 characters. */
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
    // Not serializable: use the type instead.
  }
  return `a value of type ${typeof reason}`;
}
