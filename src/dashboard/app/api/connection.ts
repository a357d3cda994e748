import { signal } from '@preact/signals';
import { serverAheadMs } from './session.ts';

/** Since when the server has not answered, by its clock; `undefined` while it does. */
export const unreachableSince = signal<number | undefined>(undefined);

/** Grows by one each time the server answers again, so that pages read anew. */
export const reconnections = signal(0);

export function markReached(): void {
  if (unreachableSince.peek() === undefined) return;
  unreachableSince.value = undefined;
  reconnections.value += 1;
}

export function markUnreachable(): void {
  unreachableSince.value ??= Date.now() + serverAheadMs.peek();
}
