import { signal } from '@preact/signals';

/** The number of findings on the overview. */
export const attention = signal(0);
