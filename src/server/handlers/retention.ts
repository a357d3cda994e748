import type { RetentionReport } from '../../management/retention-records.ts';
import { actorOf } from '../access/tokens.ts';
import type { Handlers } from '../server-context.ts';
import type { retentionRoutes } from '../routes/retention.ts';

/** Looks after retention. */
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

// The message of a store may quote statements and addresses; what it was asked to do comes before it.
function toReportResponse(report: RetentionReport | null): RetentionReport | null {
  if (report === null) return null;
  const show = (error: string): string => {
    const operation = /^(\w+): /.exec(error)?.[1];
    return `${operation === undefined ? 'The sweep' : operation} failed. The store itself has the whole report, for whoever opens it.`;
  };
  return { ...report, errors: report.errors.map(show) };
}
