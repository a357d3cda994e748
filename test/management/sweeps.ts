import type { Client, Logger, RetentionReport } from 'perdure';
import type { FakeClock } from 'perdure/testing';

/** The retention options of most sweep tests. */
export const retention = { policies: [{ keepFor: '90m' }], interval: '1h' } as const;

/** Advances the clock and returns the report of the last sweep in that time. */
export async function sweepAfter(
  client: Client,
  clock: FakeClock,
  advance: string,
): Promise<RetentionReport> {
  const { lastReport: before } = await client.retention.status();
  await clock.advance(advance);
  const { lastReport } = await client.retention.status();
  if (lastReport === null || lastReport.startedAt === before?.startedAt) {
    throw new Error('No sweep ran in that time.');
  }
  return lastReport;
}

/** Records completed sweeps and errors from the log. */
export function recorder(): Logger & { readonly sweeps: string[]; readonly errors: string[] } {
  const [sweeps, errors]: [string[], string[]] = [[], []];
  return {
    sweeps,
    errors,
    debug: () => undefined,
    info: (_fields, message) => void (message.includes('retention') && sweeps.push(message)),
    warn: (_fields, message) => void errors.push(message),
    error: (_fields, message) => void errors.push(message),
  };
}
