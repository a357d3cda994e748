import { signal } from '@preact/signals';
import { serverAheadMs } from '../api/session.ts';

/** The time of the server, in milliseconds since the epoch. Ticks once a second while the page is visible. */
export const now = signal(Date.now());

/** The time of the server now. */
export function serverNow(): number {
  return Date.now() + serverAheadMs.peek();
}

export function startClock(): void {
  const tick = (): void => {
    if (document.visibilityState === 'visible') now.value = serverNow();
  };
  setInterval(tick, 1_000);
  document.addEventListener('visibilitychange', tick);
  tick();
}
