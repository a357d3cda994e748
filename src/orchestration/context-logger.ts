import type { Logger } from '../model/logger.ts';
import { runOutsideScope } from '../replay/cancellation/scope.ts';

/**
 * A logger for code inside an orchestration: silent during replay, with fields that name the instance. The sink
 * runs outside the orchestration, so it may use timers and I/O, and what it throws is not the code's failure.
 */
export function contextLogger(options: {
  readonly sink: Logger;
  readonly fields: object;
  readonly isSilent: () => boolean;
}): Logger {
  const { sink, fields, isSilent } = options;
  const write =
    (level: keyof Logger) =>
    (extra: object, message: string): void => {
      if (isSilent()) return;
      runOutsideScope(() => {
        try {
          sink[level]({ ...fields, ...extra }, message);
        } catch (error) {
          process.emitWarning(`A log sink failed: ${String(error)}`, { type: 'PerdureWarning' });
        }
      });
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
