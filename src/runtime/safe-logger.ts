import type { Logger } from '../model/logger.ts';

/** Returns a logger that reports the errors of another as warnings of the process: a log line must not fail work. */
export function safeLogger(logger: Logger): Logger {
  const write =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        logger[level](fields, message);
      } catch (error) {
        process.emitWarning(`A log sink failed: ${String(error)}`, { type: 'PerdureWarning' });
      }
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
