import type { Client, Logger, RetentionReport } from 'perdure';
import type { FakeClock } from 'perdure/testing';

/** What most tests of sweeps tell their workers. */
export const retention = { policies: [{ keepFor: '90m' }], interval: '1h' } as const;

/** Lets time pass, and the sweeps that fall into it; answers the report of the last. */
export async function sweepAfter(
  client: Client,
  clock: FakeClock,
  advance: string,
): Promise<RetentionReport> {
  const { lastReport: before } = await client.retention.status();
  await clock.advance(advance);
  const { lastReport } = await client.retention.status();
  if (lastReport === null || lastReport.startedAt === before?.startedAt) {
    throw new Error('There was no sweep.');
  }
  return lastReport;
}

/** Keeps what is logged: sweeps that are over, and what went wrong. */
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
