import type { Style } from '../command.ts';

const styles: Readonly<Record<string, Style>> = {
  running: 'blue',
  canceling: 'yellow',
  completed: 'green',
  failed: 'red',
  canceled: 'magenta',
  terminated: 'magenta',
  skipped: 'dim',
  expired: 'yellow',
  live: 'green',
  stale: 'red',
};

/** The style of a status. It never carries information that the word does not. */
export function statusStyle(status: string): Style | undefined {
  return styles[status];
}
