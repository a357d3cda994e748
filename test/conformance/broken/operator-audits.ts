import { setTimeout as delay } from 'node:timers/promises';
import type { AuditEntry, ListAuditParams } from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Removes the audit entry of a request. */
function unaudited<Request extends { readonly audit?: AuditEntry }>(request: Request): Request {
  const { audit: _audit, ...rest } = request;
  return rest as Request;
}

/** Records an entry in a transaction of its own. */
function recorder({ db }: Intact): (entry: AuditEntry | undefined) => void {
  const insert = db.prepare(
    `INSERT INTO audit (audit_id, action, actor, reason, instance_id, filter, at, instances)
     VALUES (:auditId, :action, :actor, :reason, :instanceId, :filter, 0, 1)
     ON CONFLICT (audit_id) DO UPDATE SET instances = instances + 1`,
  );
  return (entry) => {
    if (entry !== undefined) insert.run({ reason: null, instanceId: null, ...entry });
  };
}

function withoutCondition(key: keyof ListAuditParams) {
  return ({ provider }: Intact): Partial<Provider> => ({
    listAudit: (params) => {
      const { [key]: _key, ...rest } = params;
      return provider.listAudit(rest as ListAuditParams);
    },
  });
}

export const brokenOperatorAudits: readonly BrokenProvider[] = [
  {
    fault: 'the audit record of a cancel is written after its transaction',
    rejectedBy: 'audit/commits-with-the-change',
    override: (intact) => {
      const record = recorder(intact);
      return {
        async requestCancel(requests) {
          const results = await intact.provider.requestCancel(requests.map(unaudited));
          await delay(20);
          for (const [index, { changed }] of results.entries()) {
            if (changed) record(requests[index]?.audit);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a cancel that changes nothing is recorded',
    rejectedBy: 'audit/records-cancels',
    override: (intact) => {
      const record = recorder(intact);
      return {
        async requestCancel(requests) {
          const results = await intact.provider.requestCancel(requests);
          for (const [index, { changed }] of results.entries()) {
            if (!changed) record(requests[index]?.audit);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a termination ignores the incarnation',
    rejectedBy: 'audit/records-terminations',
    override: ({ provider }) => ({
      terminate: (requests) =>
        provider.terminate(requests.map(({ incarnation: _incarnation, ...rest }) => rest)),
    }),
  },
  {
    fault: 'a termination is not recorded',
    rejectedBy: 'audit/records-terminations',
    override: ({ provider }) => ({
      terminate: (requests) => provider.terminate(requests.map(unaudited)),
    }),
  },
  {
    fault: 'an event of a bulk operation is not recorded',
    rejectedBy: 'audit/records-events',
    override: ({ provider }) => ({
      enqueueMessages: (messages) =>
        provider.enqueueMessages(messages.map(({ bulk: _bulk, ...message }) => message)),
    }),
  },
  {
    fault: 'a repeated part of a bulk operation raises its events again',
    rejectedBy: 'audit/a-repeated-event-is-not-raised-twice',
    override: ({ provider, db }) => {
      const forget = db.prepare('UPDATE audit SET progress_key = NULL');
      return {
        enqueueMessages(messages) {
          forget.run();
          return provider.enqueueMessages(messages);
        },
      };
    },
  },
  {
    fault: 'a schedule write that is fenced off is recorded',
    rejectedBy: 'audit/records-schedules',
    override: (intact) => {
      const record = recorder(intact);
      return {
        async putSchedule(write) {
          const after = await intact.provider.putSchedule(write);
          if (after === undefined) record(write.audit);
          return after;
        },
      };
    },
  },
  {
    fault: 'a repeated session shutdown is recorded',
    rejectedBy: 'audit/records-shutdowns',
    override: (intact) => {
      const record = recorder(intact);
      return {
        async shutdownSession(request) {
          const result = await intact.provider.shutdownSession(request);
          if (result.kind === 'repeated') record(request.audit);
          return result;
        },
      };
    },
  },
  {
    fault: 'writeRecord() records its audit entry without a change',
    rejectedBy: 'audit/records-settings',
    override: (intact) => {
      const record = recorder(intact);
      return {
        async writeRecord(name, value, audit) {
          await intact.provider.writeRecord(name, value);
          record(audit);
        },
      };
    },
  },
  {
    fault: 'the audit keeps the ids of deleted instances',
    rejectedBy: 'audit/a-deleted-instance-is-not-named',
    override: ({ db }) => {
      db.exec(
        'CREATE TRIGGER named BEFORE UPDATE OF instance_id ON audit BEGIN SELECT RAISE(IGNORE); END',
      );
      return {};
    },
  },
  {
    fault: 'the audit is not filtered by actor',
    rejectedBy: 'audit/filters-combine',
    override: withoutCondition('actor'),
  },
  {
    fault: 'the audit is not filtered by time',
    rejectedBy: 'audit/filters-combine',
    override: withoutCondition('before'),
  },
];
