import type { Logger } from '../../model/logger.ts';

/** Calls a user's hook or logger; what it throws is logged, if that works, and goes no further. */
export function reportSafely(logger: Logger, report: () => void): void {
  try {
    report();
  } catch (error) {
    try {
      logger.error({ error }, 'a hook threw');
    } catch {
      // The logger itself is broken: there is nobody left to tell.
    }
  }
}
