import { toMs } from '../model/values/duration.ts';
import type { ParsedOptions } from './command.ts';

/** Reads a time option as a date. A duration counts back from now. */
export function readDate(options: ParsedOptions, name: string): Date | undefined {
  const time = options.time(name);
  return typeof time === 'string' ? new Date(Date.now() - toMs(time, name)) : time;
}
