import type { DeleteProgress } from '../../management/delete-instance.ts';
import type { RetentionReport } from '../../management/retention-records.ts';
import type { PruneResult } from '../../providers/contract/management.ts';
import { actorOf } from '../access/tokens.ts';
import type { deletionRoutes, retentionRoutes } from '../routes/deletion.ts';
import type { Handlers } from '../server-context.ts';

export const deletionHandlers: Handlers<typeof deletionRoutes> = {
  deleteInstance({ params, body, caller }, { client }) {
    return client.deleteInstance(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  async deleteInstances({ body, caller, signal }, { client, bulkMs }) {
    const { filter, all, dryRun, actor } = body;
    let sum: DeleteProgress = {
      instancesDeleted: 0,
      executionsDeleted: 0,
      eventsDeleted: 0,
      queueMessagesDeleted: 0,
      rootsDeleted: 0,
      rootsSkipped: 0,
    };
    return withinTime(bulkMs, signal, (limit) =>
      client.deleteInstanceBulk(filter, {
        all,
        dryRun,
        actor: actorOf(caller, actor),
        signal: limit,
        onProgress: (progress) => {
          sum = progress;
        },
      }),
    ).then((result) => ({ ...sum, ...result, finished: result !== undefined }));
  },
  pruneExecutions({ params, body, caller }, { client }) {
    return client.pruneExecutions(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  async pruneExecutionsBulk({ body, caller, signal }, { client, bulkMs }) {
    const { filter, actor, ...conditions } = body;
    let sum: PruneResult = { instancesProcessed: 0, executionsDeleted: 0, eventsDeleted: 0 };
    const result = await withinTime(bulkMs, signal, (limit) =>
      client.pruneExecutionsBulk(filter, {
        ...conditions,
        actor: actorOf(caller, actor),
        signal: limit,
        onProgress: (progress) => {
          sum = progress;
        },
      }),
    );
    return { ...(result ?? sum), finished: result !== undefined };
  },
  listAudit({ query }, { client }) {
    return client.listAudit(query);
  },
};

/** Runs `work` until `ms` have passed or the caller disconnects. Returns `undefined` in that case. */
async function withinTime<Value>(
  ms: number,
  signal: AbortSignal,
  work: (limit: AbortSignal) => Promise<Value>,
): Promise<Value | undefined> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  const timer = setTimeout(stop, ms);
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await work(controller.signal);
  } catch (error) {
    if (controller.signal.aborted && error === controller.signal.reason) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

export const retentionHandlers: Handlers<typeof retentionRoutes> = {
  async getRetention(_, { client }) {
    const { lastReport, ...status } = await client.retention.status();
    return { ...status, lastReport: toReportResponse(lastReport) };
  },
  async pauseRetention({ body, caller }, { client }) {
    await client.retention.pause({ ...body, actor: actorOf(caller, body.actor) });
    return {};
  },
  async resumeRetention({ body, caller }, { client }) {
    await client.retention.resume({ ...body, actor: actorOf(caller, body.actor) });
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
