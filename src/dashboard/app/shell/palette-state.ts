import { signal } from '@preact/signals';

export const isPaletteOpen = signal(false);
export const isHelpOpen = signal(false);
