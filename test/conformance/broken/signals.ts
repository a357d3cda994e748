import type { BrokenProvider } from './broken-provider.ts';

export const brokenSignals: readonly BrokenProvider[] = [
  {
    fault: 'a new instance does not end a waiting fetch',
    rejectedBy: 'wait/a-new-instance-ends-it',
    override: ({ provider, clock }) => ({
      async fetchOrchestrationItems({ waitMs, ...params }) {
        const fetchNow = () => provider.fetchOrchestrationItems({ ...params, waitMs: 0 });
        const items = await fetchNow();
        if (items.length > 0 || waitMs === 0) return items;
        const { promise, resolve } = Promise.withResolvers<void>();
        clock.setTimer(waitMs, resolve);
        await promise;
        return fetchNow();
      },
    }),
  },
  {
    fault: 'scheduled work does not end a waiting fetch',
    rejectedBy: 'wait/scheduled-work-ends-it',
    override: ({ provider, clock }) => ({
      async fetchWorkItems({ waitMs, ...params }) {
        const fetchNow = () => provider.fetchWorkItems({ ...params, waitMs: 0 });
        const items = await fetchNow();
        if (items.length > 0 || waitMs === 0) return items;
        const { promise, resolve } = Promise.withResolvers<void>();
        clock.setTimer(waitMs, resolve);
        await promise;
        return fetchNow();
      },
    }),
  },
  {
    fault: 'a due timer does not end a waiting fetch',
    rejectedBy: 'wait/a-due-timer-ends-it',
    override: ({ provider, db, clock }) => ({
      async fetchOrchestrationItems({ waitMs, ...params }) {
        // Hides messages that are not yet due until after the wait.
        const hide = db.prepare(
          'UPDATE orchestrator_queue SET visible_at = visible_at + ? WHERE visible_at > ?',
        );
        if (waitMs > 0) hide.run(waitMs, clock.now());
        return provider.fetchOrchestrationItems({ ...params, waitMs });
      },
    }),
  },
  {
    fault: 'a fetch never waits',
    rejectedBy: 'wait/a-message-ends-it',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, waitMs: 0 }),
    }),
  },
  {
    fault: 'a waiting fetch ignores its AbortSignal',
    rejectedBy: 'wait/ends-when-the-signal-aborts',
    override: ({ provider }) => ({
      fetchOrchestrationItems: ({ signal: _signal, ...params }) =>
        provider.fetchOrchestrationItems(params),
    }),
  },
  {
    fault: 'a wait lasts one millisecond too long',
    rejectedBy: 'wait/ends-when-the-time-is-up',
    override: ({ provider }) => ({
      fetchWorkItems: (params) =>
        provider.fetchWorkItems({ ...params, waitMs: params.waitMs && params.waitMs + 1 }),
    }),
  },
  {
    fault: 'hints omit ended instances',
    rejectedBy: 'hint/tells-of-finished-instances',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'finished') listener(hint);
        }),
    }),
  },
  {
    fault: 'hints omit custom statuses',
    rejectedBy: 'hint/tells-of-custom-status',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'statusSet') listener(hint);
        }),
    }),
  },
  {
    fault: 'hints omit instances that ended in another process',
    rejectedBy: 'shared/an-end-elsewhere-is-told',
    override: ({ provider, db }) => {
      db.exec(
        'CREATE TRIGGER IF NOT EXISTS lost AFTER INSERT ON changes BEGIN UPDATE changes SET finished = NULL; END',
      );
      return { name: provider.name };
    },
  },
  {
    fault: 'hints omit custom statuses set in another process',
    rejectedBy: 'shared/custom-status-elsewhere-is-told',
    override: ({ provider, db }) => {
      db.exec(
        'CREATE TRIGGER IF NOT EXISTS lost AFTER INSERT ON changes BEGIN UPDATE changes SET status_set = NULL; END',
      );
      return { name: provider.name };
    },
  },
  {
    fault: 'several custom statuses of one turn count as one version',
    rejectedBy: 'ack/counts-the-versions-of-the-custom-status',
    override: ({ provider }) => ({
      ackOrchestrationItems: (acks) =>
        provider.ackOrchestrationItems(
          acks.map((ack) => ({
            ...ack,
            turn: {
              ...ack.turn,
              events: ack.turn.events.map((event) =>
                event.kind === 'customStatusSet' ? { ...event, kind: 'timerFired' } : event,
              ),
            },
          })),
        ),
    }),
  },
  {
    fault: 'a hint has an output for a failed instance',
    rejectedBy: 'hint/brings-the-outputs-of-completed-instances',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'finished') return listener(hint);
          listener({
            ...hint,
            outputs: new Map(
              hint.instanceIds.map((id) => [id, { incarnation: 'x', output: null }]),
            ),
          });
        }),
    }),
  },
  {
    fault: 'a cancel hint has no lock tokens',
    rejectedBy: 'hint/tells-whom-a-cancel-concerns',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) =>
          listener(hint.kind === 'cancelRequested' ? { ...hint, lockTokens: [] } : hint),
        ),
    }),
  },
  {
    fault: 'a cancel hint has the wrong trigger',
    rejectedBy: 'hint/brings-the-requests-of-canceled-items',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'cancelRequested') return listener(hint);
          const cancels = Array.from(
            hint.cancels ?? [],
            ([token, cancel]) => [token, { ...cancel, trigger: 'cancel' as const }] as const,
          );
          listener({ ...hint, cancels: new Map(cancels) });
        }),
    }),
  },
  {
    fault: 'a cancel hint has a request for a deleted item',
    rejectedBy: 'hint/brings-the-requests-of-canceled-items',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'cancelRequested') return listener(hint);
          const cancel = { reason: 'x', requestedAt: 0, trigger: 'cancel' } as const;
          const cancels = hint.lockTokens.map(
            (token) => [token, hint.cancels?.get(token) ?? cancel] as const,
          );
          listener({ ...hint, cancels: new Map(cancels) });
        }),
    }),
  },
  {
    fault: 'a stopped listener still gets hints',
    rejectedBy: 'hint/reaches-every-listener-until-it-stops',
    override: ({ provider }) => ({
      hints(listener) {
        provider.hints(listener);
        return () => undefined;
      },
    }),
  },
  {
    fault: 'a second close() rejects',
    rejectedBy: 'close/can-be-repeated',
    override({ provider }) {
      let closed = false;
      return {
        async close() {
          await provider.close();
          if (closed) throw new Error('closed already');
          closed = true;
        },
      };
    },
  },
  {
    fault: 'a closed provider returns empty results',
    rejectedBy: 'close/refuses-what-comes-later',
    override({ provider }) {
      let closed = false;
      return {
        async close() {
          closed = true;
          await provider.close();
        },
        getInstances: async (ids) => (closed ? [] : provider.getInstances(ids)),
      };
    },
  },
];
