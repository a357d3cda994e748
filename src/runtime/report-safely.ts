import type { Logger } from '../model/logger.ts';

/** Calls a user's hook; what it throws is logged and goes no further. */
export function reportSafely(logger: Logger, report: () => void): void {
  try {
    report();
  } catch (error) {
    logger.error({ error }, 'a hook threw');
  }
}
