import { computed, signal } from '@preact/signals';
import { unreachableSince } from '../api/connection.ts';

/** Whether the reader has paused updates (key `p`). */
export const isPaused = signal(false);
const isHidden = signal(document.visibilityState === 'hidden');
document.addEventListener('visibilitychange', () => {
  isHidden.value = document.visibilityState === 'hidden';
});

/** Whether pages follow what happens: not paused, and the page is visible. */
export const isLive = computed(() => !isPaused.value && !isHidden.value);

/** Whether the page shows current data, as displayed to the reader. */
export const liveState = computed<'live' | 'paused' | 'lost'>(() => {
  if (unreachableSince.value !== undefined) return 'lost';
  return isPaused.value ? 'paused' : 'live';
});
