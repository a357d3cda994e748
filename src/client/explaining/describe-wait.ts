import { systemClock } from '../../model/clock.ts';
import { isTerminal } from '../../model/status.ts';
import type { ClientBackend } from '../client-backend.ts';

/**
 * Explains what an instance waits for, for the error of a timeout. Resolves with `undefined` if that fails or takes
 * longer than `timeoutMs`: it must not delay an error.
 */
export async function describeWait(
  reader: Pick<ClientBackend, 'why'>,
  id: string,
  timeoutMs: number,
): Promise<string | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancelTimer = systemClock.setTimer(timeoutMs, () => late.resolve(undefined));
  const described = reader.why(id).then(
    ({ status, text }) => (isTerminal(status) ? undefined : text),
    () => undefined,
  );
  const text = await Promise.race([described, late.promise]);
  cancelTimer();
  return text;
}
