import type { CancelInstance } from '../../../src/providers/contract/cancellation.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { aroundTurns, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Runs SQL on the database right before a cancel request. */
function beforeRequests({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    requestCancel(requests) {
      db.exec(sql);
      return provider.requestCancel(requests);
    },
  };
}

/** Runs SQL on the database right after a cancel request. */
function afterRequests({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async requestCancel(requests) {
      const results = await provider.requestCancel(requests);
      db.exec(sql);
      return results;
    },
  };
}

/** Commits turns of canceling instances as if they were running. */
function ignoreRequests(intact: Intact): Partial<Provider> {
  const setStatus = intact.db.prepare(
    'UPDATE instances SET status = ? WHERE instance_key = ? AND status = ?',
  );
  return aroundTurns(intact, (instanceKey) => {
    const { changes } = setStatus.run('running', instanceKey, 'canceling');
    return () => void (changes === 1 && setStatus.run('canceling', instanceKey, 'running'));
  });
}

/** Changes the keys of cancel requests. */
function editKeys(
  { provider }: Intact,
  edit: (request: CancelInstance) => string | undefined,
): Partial<Provider> {
  return {
    requestCancel: (requests) =>
      provider.requestCancel(
        requests.map(({ key, ...request }) => {
          const edited = key === undefined ? undefined : edit({ ...request, key });
          return { ...request, ...(edited !== undefined && { key: edited }) };
        }),
      ),
  };
}

export const brokenStops: readonly BrokenProvider[] = [
  {
    fault: 'the key of a cancel request is ignored',
    rejectedBy: 'stop/a-repeat-changes-nothing',
    override: (intact) => editKeys(intact, () => undefined),
  },
  {
    fault: 'the key of a cancel request is forgotten with its instance',
    rejectedBy: 'stop/a-repeat-spares-the-next-life',
    override: ({ provider, db }) => ({
      createInstances(instances) {
        db.exec('DELETE FROM deleted_starts');
        return provider.createInstances(instances);
      },
    }),
  },
  {
    fault: 'the key of a cancel request counts for every instance',
    rejectedBy: 'stop/a-key-belongs-to-its-id',
    override: ({ provider }) => {
      const seen = new Set<string>();
      return {
        async requestCancel(requests) {
          if (requests.some(({ key }) => key !== undefined && seen.has(key)))
            return requests.map(() => ({ found: true, changed: true, status: 'canceling' }));
          for (const { key } of requests) if (key !== undefined) seen.add(key);
          return provider.requestCancel(requests);
        },
      };
    },
  },
  {
    fault: 'the key of a cancel request counts for a termination',
    rejectedBy: 'stop/a-key-belongs-to-its-action',
    override: ({ provider }) => {
      const seen = new Set<string>();
      return {
        requestCancel(requests) {
          for (const { instanceId, key } of requests) seen.add(`${instanceId} ${key}`);
          return provider.requestCancel(requests);
        },
        async terminate(requests) {
          const isRepeat = requests.some(({ instanceId, key }) => seen.has(`${instanceId} ${key}`));
          if (!isRepeat) return provider.terminate(requests);
          return requests.map(() => ({ found: true, changed: true, status: 'canceling' }));
        },
      };
    },
  },
  {
    fault: 'the key of a cancel request never expires',
    rejectedBy: 'stop/a-key-expires-after-ten-minutes',
    override: ({ provider, db }) => ({
      requestCancel(requests) {
        db.exec('UPDATE deleted_starts SET expires_at = 9e15');
        return provider.requestCancel(requests);
      },
    }),
  },
  {
    fault: 'a cancel request without effect takes its key',
    rejectedBy: 'stop/an-ineffective-request-keeps-its-key-free',
    override: ({ provider }) => {
      const seen = new Set<string>();
      return {
        async requestCancel(requests) {
          const results = await provider.requestCancel(requests);
          return results.map((result, index) => {
            const { instanceId, key } = requests[index] ?? {};
            const place = `${instanceId} ${key}`;
            const isRepeat = key !== undefined && seen.has(place);
            seen.add(place);
            return isRepeat ? { found: true, changed: true, status: null } : result;
          });
        },
      };
    },
  },
  {
    fault: 'the key of a termination is ignored',
    rejectedBy: 'terminate/a-repeat-changes-nothing',
    override: ({ provider }) => ({
      terminate: (requests) =>
        provider.terminate(requests.map(({ key: _ignored, ...request }) => request)),
    }),
  },
  {
    fault: 'a cancel request reaches shielded work',
    rejectedBy: 'stop/spares-shielded-and-abandoned-work',
    override: (intact) => beforeRequests(intact, 'UPDATE worker_queue SET shielded = 0'),
  },
  {
    fault: 'a cancel request reaches abandoned work',
    rejectedBy: 'stop/spares-shielded-and-abandoned-work',
    override: (intact) =>
      beforeRequests(intact, `UPDATE worker_queue SET cancellation = 'request'`),
  },
  {
    fault: 'a later cancel request overwrites the first',
    rejectedBy: 'stop/the-first-request-is-kept',
    override: ({ provider, db }) => ({
      async requestCancel(requests) {
        const results = await provider.requestCancel(requests);
        const overwrite = db.prepare(
          'UPDATE instances SET cancel_reason = ?, cancel_actor = ? WHERE instance_id = ?',
        );
        for (const { reason, actor, instanceId } of requests) {
          overwrite.run(reason, actor, instanceId);
        }
        return results;
      },
    }),
  },
  {
    fault: 'a second cancel request returns changed: true',
    rejectedBy: 'stop/answers-each-of-a-batch',
    override: ({ provider }) => ({
      requestCancel: async (requests) =>
        (await provider.requestCancel(requests)).map((result) => ({
          ...result,
          changed: result.found && result.status !== 'completed',
        })),
    }),
  },
  {
    fault: 'a canceled pending instance still runs',
    rejectedBy: 'stop/a-pending-instance-ends-at-once',
    override: (intact) =>
      beforeRequests(intact, `UPDATE instances SET status = 'running' WHERE status = 'pending'`),
  },
  {
    fault: 'work removed by a cancel request leaves no message',
    rejectedBy: 'stop/removes-unclaimed-work',
    override: (intact) =>
      afterRequests(intact, `DELETE FROM orchestrator_queue WHERE kind = 'activityCanceled'`),
  },
  {
    fault: 'canceled activities are read before the cancel request',
    rejectedBy: 'stop/the-request-is-read-first',
    override: (intact) =>
      afterRequests(
        intact,
        `UPDATE orchestrator_queue SET visible_at = visible_at - 1 WHERE kind = 'activityCanceled'`,
      ),
  },
  {
    fault: 'a later cancel request overwrites the reason of an item',
    rejectedBy: 'stop/an-item-keeps-its-own-first-reason',
    override: (intact) =>
      beforeRequests(
        intact,
        'UPDATE worker_queue SET cancel_requested = 0, cancel_requested_at = NULL',
      ),
  },
  {
    fault: 'the clean-up limit never expires',
    rejectedBy: 'cleanup/expires-at-its-moment',
    override: (intact) =>
      afterRequests(intact, `DELETE FROM orchestrator_queue WHERE kind = 'cleanupExpired'`),
  },
  {
    fault: 'an expired clean-up waits for a worker with the code',
    rejectedBy: 'cleanup/needs-no-code-once-it-has-expired',
    override: (intact) => afterRequests(intact, 'UPDATE instance_locks SET cleanup_at = NULL'),
  },
  {
    fault: 'a canceling instance is claimed without its code before its clean-up limit',
    rejectedBy: 'cleanup/needs-no-code-once-it-has-expired',
    override: (intact) => afterRequests(intact, 'UPDATE instance_locks SET cleanup_at = 0'),
  },
  {
    fault: 'a cancel request does not unblock a blocked instance',
    rejectedBy: 'cleanup/lifts-a-hold-back',
    override: (intact) =>
      afterRequests(intact, 'UPDATE instance_locks SET next_at = 9e15 WHERE blocked_at > 0'),
  },
  {
    fault: 'the end of the clean-up is not returned first',
    rejectedBy: 'cleanup/comes-first-where-messages-are-cut',
    override: ({ provider }) => ({
      fetchOrchestrationItems: async (params) =>
        (await provider.fetchOrchestrationItems(params)).map((item) => ({
          ...item,
          messages: item.messages.toSorted((a, b) => a.messageKey - b.messageKey),
        })),
    }),
  },
  {
    fault: 'a concurrent turn resets canceling to running',
    rejectedBy: 'under-way/does-not-lower-the-status',
    override: (intact) =>
      aroundTurns(intact, (instanceKey) => () => {
        intact.db
          .prepare(
            `UPDATE instances SET status = 'running' WHERE instance_key = ? AND status = 'canceling'`,
          )
          .run(instanceKey);
      }),
  },
  {
    fault: 'the work of a concurrent turn starts after the cancel',
    rejectedBy: 'under-way/its-work-never-starts',
    override: ignoreRequests,
  },
  {
    fault: 'the children of a concurrent turn start after the cancel',
    rejectedBy: 'under-way/its-children-never-start',
    override: ignoreRequests,
  },
  {
    fault: 'a canceling instance accepts fast turns',
    rejectedBy: 'turn-ack/needs-an-instance-without-a-stop',
    override: ({ provider, db }) => ({
      ackTurns(acks) {
        db.exec(`UPDATE instances SET status = 'running' WHERE status = 'canceling'`);
        return provider.ackTurns(acks);
      },
    }),
  },
  {
    fault: 'an instance becomes canceled while its work runs',
    rejectedBy: 'canceled/waits-for-what-runs',
    override: (intact) =>
      aroundTurns(intact, () => () => {
        intact.db.exec(
          `UPDATE instances
           SET status = 'canceled', ended_at = 1, canceled_at = 1, closing_reason = NULL
           WHERE closing_reason IS NOT NULL`,
        );
      }),
  },
  {
    fault: 'the end of the last item does not end its canceling instance',
    rejectedBy: 'canceled/the-last-one-ends-it',
    override: ({ provider, db }) => ({
      abandonWorkItems(abandons) {
        db.exec('UPDATE instances SET closing_reason = NULL');
        return provider.abandonWorkItems(abandons);
      },
    }),
  },
  {
    fault: 'the parent gets no message when its child is canceled',
    rejectedBy: 'canceled/tells-its-parent-at-its-end',
    override: ({ provider, db }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        db.exec(`DELETE FROM orchestrator_queue WHERE kind = 'childCanceled'`);
        return results;
      },
    }),
  },
  {
    fault: 'leaked handlers are not counted',
    rejectedBy: 'canceled/handlers-that-go-on-are-counted',
    override: ({ provider }) => ({
      ackWorkItems: (acks) =>
        provider.ackWorkItems(
          acks.map(({ lockToken, outcome }) => ({
            lockToken,
            outcome: outcome.kind === 'canceled' ? { ...outcome, leaked: false } : outcome,
          })),
        ),
    }),
  },
  {
    fault: 'a cancel request is delivered past the point of no return',
    rejectedBy: 'no-return/is-kept-over-attempts',
    override: (intact) => beforeRequests(intact, 'UPDATE worker_queue SET point_of_no_return = 0'),
  },
  {
    fault: 'the point of no return can be passed after a cancel request',
    rejectedBy: 'no-return/an-earlier-request-wins',
    override: () => ({ markPointOfNoReturn: async () => ({ kind: 'passed' }) }),
  },
  {
    fault: 'the point of no return is forgotten between attempts',
    rejectedBy: 'no-return/is-kept-over-attempts',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec('UPDATE worker_queue SET point_of_no_return = 0');
        return results;
      },
    }),
  },
  {
    fault: 'the history of a terminated instance has no end event',
    rejectedBy: 'terminate/ends-at-once',
    override: ({ provider, db }) => ({
      async terminate(requests) {
        const results = await provider.terminate(requests);
        db.exec(`DELETE FROM history WHERE kind = 'executionTerminated'`);
        return results;
      },
    }),
  },
  {
    fault: 'a running turn is committed to a terminated instance',
    rejectedBy: 'terminate/a-turn-under-way-is-lost',
    override: ({ provider }) => ({
      terminate: (requests) =>
        provider.requestCancel(requests.map((request) => ({ ...request, cleanupMs: 0 }))),
    }),
  },
  {
    fault: 'the parent gets no message when its child is terminated',
    rejectedBy: 'terminate/tells-its-parent',
    override: ({ provider, db }) => ({
      async terminate(requests) {
        const results = await provider.terminate(requests);
        db.exec(`DELETE FROM orchestrator_queue WHERE kind = 'childFailed'`);
        return results;
      },
    }),
  },
  {
    fault: 'the children of a terminated instance are not asked to stop',
    rejectedBy: 'terminate/asks-its-children-to-stop',
    override: ({ provider, db }) => ({
      terminate(requests) {
        db.exec(`UPDATE instances SET cancellation = 'abandon'`);
        return provider.terminate(requests);
      },
    }),
  },
  {
    fault: 'a cancel request ignores the incarnation',
    rejectedBy: 'stop/another-life-is-not-found',
    override: ({ provider }) => ({
      requestCancel: (requests) =>
        provider.requestCancel(
          requests.map(({ instanceId, reason, actor, cleanupMs }) => ({
            instanceId,
            reason,
            actor,
            cleanupMs,
          })),
        ),
    }),
  },
  {
    fault: 'terminate() ignores tree: true',
    rejectedBy: 'terminate/ends-a-whole-tree',
    override: ({ provider }) => ({
      terminate: (requests) =>
        provider.terminate(requests.map((request) => ({ ...request, tree: false }))),
    }),
  },
  {
    fault: 'a child cancel stops an unrelated instance with that id',
    rejectedBy: 'child-cancel/spares-strangers',
    override: ({ provider }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        for (const { turn } of acks) {
          await provider.requestCancel(
            turn.childCancels.map((one) => ({ ...one, actor: null, cleanupMs: 0 })),
          );
        }
        return results;
      },
    }),
  },
  {
    fault: 'the children of an ended instance are not canceled',
    rejectedBy: 'child-cancel/by-the-end-of-the-parent',
    override: (intact) =>
      aroundTurns(intact, (_instanceKey, turn) => {
        if (turn.outcome.status !== 'running') {
          intact.db.exec(`UPDATE instances SET cancellation = 'abandon'`);
        }
        return () => undefined;
      }),
  },
  {
    fault: 'running items have no worker name',
    rejectedBy: 'read/running-items',
    override: ({ provider }) => ({
      fetchWorkItems(params) {
        const { worker: _, ...anonymous } = params;
        return provider.fetchWorkItems(anonymous);
      },
    }),
  },
  {
    fault: 'listRunningItems() returns nothing',
    rejectedBy: 'read/running-items',
    override: () => ({ listRunningItems: async () => [] }),
  },
];
