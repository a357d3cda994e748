import { decodeMessage, type StoredMessage } from '../../../src/model/message.ts';
import type { EnqueueResult } from '../../../src/providers/contract/instances.ts';
import type { BrokenProvider } from './broken-provider.ts';

export const brokenQueues: readonly BrokenProvider[] = [
  {
    fault: 'the newest instance is claimed first',
    rejectedBy: 'order/the-instance-that-waits-longest-is-first',
    override: ({ provider }) => ({
      fetchOrchestrationItems: async (params) =>
        (await provider.fetchOrchestrationItems(params)).toReversed(),
    }),
  },
  {
    fault: 'messages are returned newest first',
    rejectedBy: 'order/messages-come-in-the-order-of-their-arrival',
    override: ({ provider }) => ({
      async fetchOrchestrationItems(params) {
        const items = await provider.fetchOrchestrationItems(params);
        return items.map((item) => ({ ...item, messages: item.messages.toReversed() }));
      },
    }),
  },
  {
    fault: 'a start message is omitted after the clock was set back',
    rejectedBy: 'order/the-start-comes-though-the-clock-was-set-back',
    override: ({ provider, clock }) => {
      let createdAt = 0;
      return {
        createInstances(instances) {
          createdAt = clock.now();
          return provider.createInstances(instances);
        },
        async fetchOrchestrationItems(params) {
          const items = await provider.fetchOrchestrationItems(params);
          if (clock.now() >= createdAt) return items;
          return items.map((item) => ({
            ...item,
            messages: item.messages.filter(({ kind }) => kind !== 'start'),
          }));
        },
      };
    },
  },
  {
    fault: 'timers are returned before all other messages',
    rejectedBy: 'order/a-due-timer-takes-its-place-among-messages',
    override: ({ provider }) => ({
      async fetchOrchestrationItems(params) {
        const items = await provider.fetchOrchestrationItems(params);
        const rank = ({ kind }: StoredMessage) => (kind === 'timerFired' ? 0 : 1);
        return items.map((item) => ({
          ...item,
          messages: item.messages.toSorted((a, b) => rank(a) - rank(b)),
        }));
      },
    }),
  },
  {
    fault: 'a claim ignores maxMessages',
    rejectedBy: 'order/max-messages-bounds-a-claim',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, maxMessages: 100_000 }),
    }),
  },
  {
    fault: 'a claim has no default for maxMessages',
    rejectedBy: 'order/a-thousand-messages-come-unless-told-otherwise',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ maxMessages: 100_000, ...params }),
    }),
  },
  {
    fault: 'a claim returns one instance more than max',
    rejectedBy: 'order/max-leaves-the-rest-for-the-next',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, max: params.max + 1 }),
    }),
  },
  {
    fault: 'instances are claimed by workers without their code',
    rejectedBy: 'filter/claims-only-runnable-names',
    override: ({ provider }) => ({
      fetchOrchestrationItems: ({ runnable: _runnable, ...params }) =>
        provider.fetchOrchestrationItems(params),
    }),
  },
  {
    fault: 'instances are claimed first and filtered later',
    rejectedBy: 'filter/claims-only-runnable-names',
    override: ({ provider }) => ({
      async fetchOrchestrationItems({ runnable, ...params }) {
        const items = await provider.fetchOrchestrationItems(params);
        const names = runnable?.map(({ name }) => name);
        return items.filter(({ name }) => names?.includes(name) ?? true);
      },
    }),
  },
  {
    fault: 'a worker of one version claims instances of all versions',
    rejectedBy: 'filter/claims-only-runnable-versions',
    override: ({ provider, db }) => ({
      fetchOrchestrationItems({ runnable, ...params }) {
        const versions = db
          .prepare<[], { version: string | null }>(
            `SELECT DISTINCT nullif(version, '') AS version FROM definitions`,
          )
          .all();
        return provider.fetchOrchestrationItems({
          ...params,
          ...(runnable && {
            runnable: runnable.flatMap(({ name }) =>
              versions.map(({ version }) => ({ name, version })),
            ),
          }),
        });
      },
    }),
  },
  {
    fault: 'an empty runnable list claims every instance',
    rejectedBy: 'filter/nothing-runnable-claims-nothing',
    override: ({ provider }) => ({
      fetchOrchestrationItems: ({ runnable = [], ...params }) =>
        provider.fetchOrchestrationItems(runnable.length === 0 ? params : { ...params, runnable }),
    }),
  },
  {
    fault: 'a message to an unknown id is delivered when the id is created',
    rejectedBy: 'message/to-a-missing-instance-is-not-kept',
    override({ provider }) {
      const waiting: Parameters<typeof provider.enqueueMessages>[0][number][] = [];
      return {
        async enqueueMessages(messages) {
          const results = await provider.enqueueMessages(messages);
          waiting.push(...messages.filter((_, index) => results[index] === 'missing'));
          return results;
        },
        async createInstances(instances) {
          const results = await provider.createInstances(instances);
          await provider.enqueueMessages(waiting.splice(0));
          return results;
        },
      };
    },
  },
  {
    fault: 'a message to an ended instance returns enqueued',
    rejectedBy: 'message/to-an-instance-that-is-over-is-refused',
    override: ({ provider }) => ({
      async enqueueMessages(messages) {
        const results = await provider.enqueueMessages(messages);
        return results.map((result) => (result === 'over' ? 'enqueued' : result));
      },
    }),
  },
  {
    fault: 'enqueueMessages() ignores maxPending',
    rejectedBy: 'message/beyond-the-limit-is-full',
    override: ({ provider }) => ({
      enqueueMessages: (messages) =>
        provider.enqueueMessages(
          messages.map(({ instanceId, message }) => ({ instanceId, message })),
        ),
    }),
  },
  {
    fault: 'maxPending counts messages of other kinds',
    rejectedBy: 'message/the-limit-counts-one-kind-of-one-instance',
    override: ({ provider, db }) => ({
      async enqueueMessages(messages) {
        const results: EnqueueResult[] = [];
        const count = db
          .prepare<[string], number>(
            `SELECT count(*) FROM orchestrator_queue JOIN instances USING (instance_key)
             WHERE instance_id = ?`,
          )
          .pluck();
        for (const message of messages) {
          const { instanceId, maxPending = Infinity } = message;
          if ((count.get(instanceId) ?? 0) >= maxPending) results.push('full');
          else results.push(...(await provider.enqueueMessages([message])));
        }
        return results;
      },
    }),
  },
  {
    fault: 'messages that cannot be decoded are dropped silently',
    rejectedBy: 'data/messages-come-back-as-they-are',
    override: ({ provider }) => ({
      async fetchOrchestrationItems(params) {
        const items = await provider.fetchOrchestrationItems(params);
        return items.map((item) => ({ ...item, messages: item.messages.filter(isDecodable) }));
      },
    }),
  },
  {
    fault: 'an abandoned instance is claimed again without its delay',
    rejectedBy: 'abandon/waits-its-delay',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(abandons.map((abandon) => ({ ...abandon, delayMs: 0 }))),
    }),
  },
  {
    fault: 'a message ends the delay of an abandoned instance',
    rejectedBy: 'abandon/waits-its-delay',
    override: ({ provider, db }) => ({
      async enqueueMessages(messages) {
        const results = await provider.enqueueMessages(messages);
        db.prepare(
          'UPDATE instance_locks SET next_at = 0, held_until = NULL WHERE lock_token IS NULL',
        ).run();
        return results;
      },
    }),
  },
  {
    fault: 'an abandoned instance loses its messages',
    rejectedBy: 'abandon/hands-the-instance-back-at-once',
    override: ({ provider, db }) => ({
      async abandonOrchestrationItems(abandons) {
        const results = await provider.abandonOrchestrationItems(abandons);
        db.prepare(`DELETE FROM orchestrator_queue WHERE kind = 'eventRaised'`).run();
        return results;
      },
    }),
  },
  {
    fault: 'an instance that one build blocks is blocked for every build',
    rejectedBy: 'blocked/comes-to-another-build-at-once',
    override: ({ provider }) => ({
      fetchOrchestrationItems: ({ buildId: _buildId, ...params }) =>
        provider.fetchOrchestrationItems(params),
    }),
  },
  {
    fault: 'the record of a blocked instance has no reason',
    rejectedBy: 'blocked/is-visible-on-the-record',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(
          abandons.map(({ blocked: _blocked, ...abandon }) => abandon),
        ),
    }),
  },
];

function isDecodable(message: StoredMessage): boolean {
  try {
    decodeMessage(message);
    return true;
  } catch {
    return false;
  }
}
