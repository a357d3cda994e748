import type { RetentionReport } from '../../management/retention-records.ts';
import { actorOf } from '../access/tokens.ts';
import type { Handlers } from '../server-context.ts';
import type { retentionRoutes } from '../routes/retention.ts';

/** Handlers of the retention routes. */
export const retentionHandlers: Handlers<typeof retentionRoutes> = {
  async getRetention(_, { client }) {
    const { lastReport, ...status } = await client.retention.status();
    return { ...status, lastReport: toReportResponse(lastReport) };
  },
  async pauseRetention({ body, caller }, { client }) {
    await client.retention.pause({ actor: actorOf(caller, body.actor) });
    return {};
  },
  async resumeRetention(_, { client }) {
    await client.retention.resume();
    return {};
  },
  async runRetention({ body, caller, signal }, { client }) {
    const { policies, dryRun, actor } = body;
    const report = await client.retention.run({
      policies,
      dryRun,
      actor: actorOf(caller, actor),
      signal,
    });
    return { report: toReportResponse(report) };
  },
};

// The message of a store may contain SQL and addresses, so only the name of the operation is kept.
function toReportResponse(report: RetentionReport | null): RetentionReport | null {
  if (report === null) return null;
  const redact = (error: string): string => {
    const operation = /^(\w+): /.exec(error)?.[1];
    return `${operation === undefined ? 'The sweep' : operation} failed. Call \`client.retention.status()\` on the store for the full message.`;
  };
  return { ...report, errors: report.errors.map(redact) };
}
