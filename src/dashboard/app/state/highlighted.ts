import { signal } from '@preact/signals';

/** The instance whose row the keyboard is on in the list; the palette offers actions on it. */
export const highlighted = signal<string | undefined>(undefined);
