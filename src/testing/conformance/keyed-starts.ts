import assert from 'node:assert/strict';
import type { Tags } from '../../model/values/tags.ts';
import { encodeMessage } from '../../model/message.ts';
import type { CreateResult, NewInstance } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { CreateTaskResult, NewTask } from '../../providers/contract/tasks.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { only } from './expectations.ts';
import { newInstance } from './sample-data.ts';
import { lockMs, type StoreUnderTest } from './store-under-test.ts';
import { newTask } from './task-helpers.ts';

/** A start with an input, of either kind. */
export interface KeyedStart extends Pick<
  NewTask & NewInstance,
  'dedupeKey' | 'dedupeMs' | 'debounce' | 'delayMs' | 'tags' | 'timeoutMs' | 'name' | 'inputHash'
> {
  readonly input: string;
}

type KeyedResult = CreateResult | CreateTaskResult;

/** A claimed run, reduced to what both kinds have. */
export interface ClaimedRun {
  readonly id: string;
  readonly input: string | null;
  /** Completes the run. */
  complete(): Promise<void>;
}

/** The same calls for task runs and orchestrations. */
export interface RunKind {
  readonly kind: 'task' | 'orchestration';
  start(provider: Provider, id: string, parts?: Partial<KeyedStart>): Promise<KeyedResult>;
  claim(store: StoreUnderTest, provider?: Provider): Promise<readonly ClaimedRun[]>;
}

const taskKind: RunKind = {
  kind: 'task',
  async start(provider, id, { input = 'input', ...parts } = {}) {
    const task = newTask(id, { payload: JSON.stringify(input), inputHash: input, ...parts });
    return only(await provider.createTasks([task]), 'result');
  },
  async claim(store, provider = store.provider) {
    const items = await provider.fetchWorkItems({ max: 10, lockMs, waitMs: 0 });
    return items.map(({ instanceId, payload, lockToken }) => ({
      id: instanceId,
      input: payload === null ? null : (JSON.parse(payload) as string),
      async complete() {
        const result = await store.ackWork(lockToken, { kind: 'completed', payload: null });
        assert.equal(result.ok, true);
      },
    }));
  },
};

const orchestrationKind: RunKind = {
  kind: 'orchestration',
  async start(provider, id, { input = 'input', ...parts } = {}) {
    const { name = 'sample' } = parts;
    const payload = JSON.stringify(input);
    const start = encodeMessage({ kind: 'start', name, version: null, payload });
    const instance = newInstance(id, { start, inputHash: input, ...parts });
    return only(await provider.createInstances([instance]), 'result');
  },
  async claim(store, provider = store.provider) {
    const items = await provider.fetchOrchestrationItems({ max: 10, lockMs, waitMs: 0 });
    return items.map((item) => {
      const payload = item.messages.find(({ kind }) => kind === 'start')?.payload ?? null;
      return {
        id: item.instanceId,
        input: payload === null ? null : (JSON.parse(payload) as string),
        async complete() {
          const outcome = { status: 'completed', payload: null } as const;
          assert.equal((await store.ack(item, { outcome })).ok, true);
        },
      };
    });
  },
};

/** Runs a case for task runs, and then for orchestrations. */
export async function forBothKinds(work: (kind: RunKind) => Promise<void>): Promise<void> {
  await work(taskKind);
  await work(orchestrationKind);
}

/** The parts of a debounced start, as a new request. */
export function debounced(
  key: string,
  input: string,
  parts: Partial<KeyedStart> & { readonly maxWaitMs?: number; readonly tags?: Tags } = {},
): Partial<KeyedStart> {
  const { maxWaitMs, ...others } = parts;
  const limited = maxWaitMs !== undefined && { maxWaitMs };
  const debounce = { key, requestKey: randomToken(), ...limited };
  return { input, delayMs: 1_000, debounce, ...others };
}

/** Expects that exactly one run is claimable, and returns it. */
export async function claimOnly(store: StoreUnderTest, kind: RunKind): Promise<ClaimedRun> {
  return only(await kind.claim(store), 'claimed run');
}
