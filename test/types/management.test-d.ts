/** What the compiler accepts and rejects in deletion calls. `tsc` is the test; nothing here runs. */
import type {
  AuditRecord,
  Client,
  DeleteInstanceResult,
  ExecutionPage,
  Handle,
  InstanceFilter,
  InstanceTree,
  MeasuredInstance,
  Perdure,
  PruneResult,
  QueueDepths,
  RetentionPolicy,
  RetentionReport,
  RetentionStatus,
  SystemMetrics,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const handle: Handle<string>;
declare const perdure: Perdure;

exactly<Promise<DeleteInstanceResult>>()(client.deleteInstance('a'));
exactly<Promise<DeleteInstanceResult>>()(handle.delete({ force: true, actor: 'ops' }));
// @ts-expect-error force is an option, so that it is read where it stands
void client.deleteInstance('a', true);
// @ts-expect-error deleteInstance() has no dry run
void client.deleteInstance('a', { dryRun: true });

const filter: InstanceFilter = {
  instanceIds: ['a'],
  completedBefore: new Date(),
  status: ['completed', 'failed'],
  name: 'order-*',
  limit: 10,
};
exactly<Promise<DeleteInstanceResult>>()(client.deleteInstanceBulk({}, { all: true }));
exactly<Promise<DeleteInstanceResult>>()(
  client.deleteInstanceBulk(filter, {
    dryRun: true,
    signal: AbortSignal.timeout(5),
    onProgress: ({ rootsDeleted, eventsDeleted }) =>
      exactly<number>()(rootsDeleted + eventsDeleted),
  }),
);
// @ts-expect-error what runs cannot be deleted in bulk
void client.deleteInstanceBulk({ status: 'running' });
// @ts-expect-error in bulk there is no force
void client.deleteInstanceBulk({}, { force: true });

exactly<Promise<PruneResult>>()(client.pruneExecutions('a', { keepLast: 5, dryRun: true }));
exactly<Promise<PruneResult>>()(client.pruneExecutionsBulk(filter, { includeRunning: true }));
// @ts-expect-error a single instance is pruned whether it runs or not
void client.pruneExecutions('a', { includeRunning: true });

exactly<Promise<InstanceTree>>()(client.getInstanceTree('a'));
exactly<Promise<MeasuredInstance>>()(client.getInstanceInfo('a'));
exactly<Promise<ExecutionPage>>()(client.listExecutions('a', { after: 5, limit: 10 }));
exactly<Promise<QueueDepths>>()(client.queueDepths());
exactly<Promise<SystemMetrics>>()(client.systemMetrics());
exactly<readonly AuditRecord[]>()((await client.listAudit({ limit: 5 })).items);

exactly<Promise<RetentionStatus>>()(client.retention.status());
exactly<Promise<RetentionReport | null>>()(client.retention.run({ dryRun: true }));
exactly<Promise<void>>()(client.retention.pause({ actor: 'ops' }));
exactly<Promise<void>>()(client.retention.resume());

const policies: readonly RetentionPolicy[] = [
  { statuses: 'completed', names: ['a', 'b*'], keepFor: '30d' },
  { keepFor: 'forever' },
  { keepExecutions: 10, keepExecutionsFor: 5 },
];
void perdure.startWorker({ retention: { policies, interval: '1h', dryRun: true } });
// @ts-expect-error a policy says how long or how many
void perdure.startWorker({ retention: { policies: [{ statuses: 'failed' }] } });
// @ts-expect-error what runs has no end to count from
void perdure.startWorker({ retention: { policies: [{ statuses: 'running', keepFor: '1d' }] } });
// @ts-expect-error retention without policies would do nothing
void perdure.startWorker({ retention: {} });
