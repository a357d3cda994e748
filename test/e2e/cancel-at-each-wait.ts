/**
 * Runs an example once per wait of its orchestrations and cancels an instance at that wait.
 * Prints a JSON array of how each canceled instance ended.
 *
 * `node cancel-at-each-wait.ts <example> [<store of the first run> <store of the second run> …]`
 */
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Perdure } from 'perdure';
import { openPostgres } from 'perdure/postgres';
import { openSqlite } from 'perdure/sqlite';

/** How an instance ended that was canceled at its nth wait. */
export interface CanceledAtWait {
  readonly orchestration: string;
  readonly wait: number;
  readonly status: string;
}

type Provider = Awaited<ReturnType<typeof openSqlite>>;
type Turn = Parameters<Provider['ackOrchestrationItems']>[0][number]['turn'];

/** An instance, by its position in the order of first turns, and one of its waits. */
interface Target {
  readonly orchestration: string;
  readonly place: number;
  readonly wait: number;
}

interface Instance {
  readonly store: Provider;
  readonly instanceId: string;
  readonly orchestration: string;
  /** Position among the instances of the orchestration. */
  readonly place: number;
  /** Number of waits in this execution. */
  waits: number;
  /** Largest number of waits in one execution. */
  maxWaits: number;
}

const terminal = new Set(['completed', 'failed', 'canceled', 'terminated', 'deleted']);
const endLimitMs = 30_000;
const [, , example = '', ...stores] = process.argv;
const print = process.stdout.write.bind(process.stdout);
// A canceled instance makes the example reject where it awaits the result.
process.on('unhandledRejection', () => undefined);
console.log = () => undefined;

/** Observes committed turns and cancels the target instance before its worker continues. */
class WaitWatch {
  readonly instances: Instance[] = [];
  readonly #target: Target | undefined;
  readonly #byKey = new Map<string, Instance>();
  readonly #byToken = new Map<string, Instance>();
  readonly #stores: Provider[] = [];
  readonly #reached = Promise.withResolvers<Instance>();

  constructor(target?: Target) {
    this.#target = target;
  }

  /** Resolves with the instance that was canceled. */
  get reached(): Promise<Instance> {
    return this.#reached.promise;
  }

  wrap(store: Provider): Provider {
    const number = this.#stores.push(store);
    const keyOf = (instanceKey: number): string => `${number}/${instanceKey}`;
    const know = (instanceKey: number, instanceId: string, orchestration: string): Instance =>
      this.#know(keyOf(instanceKey), { store, instanceId, orchestration });
    return {
      ...store,
      fetchOrchestrationItems: async (params) => {
        const items = await store.fetchOrchestrationItems(params);
        for (const { instanceKey, instanceId, name, lockToken } of items) {
          this.#byToken.set(lockToken, know(instanceKey, instanceId, name));
        }
        return items;
      },
      createInstances: async (instances) => {
        const results = await store.createInstances(instances);
        for (const [index, { instanceId, name, firstTurn }] of instances.entries()) {
          const result = results[index];
          if (result?.kind !== 'created' || firstTurn === undefined) continue;
          await this.#committed(know(result.instanceKey, instanceId, name), firstTurn);
        }
        return results;
      },
      ackOrchestrationItems: async (acks) => {
        const results = await store.ackOrchestrationItems(acks);
        for (const [index, { lockToken, turn }] of acks.entries()) {
          if (results[index]?.ok === true)
            await this.#committed(this.#byToken.get(lockToken), turn);
        }
        return results;
      },
      ackTurns: async (acks) => {
        const results = await store.ackTurns(acks);
        for (const [index, { instanceKey, turn }] of acks.entries()) {
          const isCommitted = results[index]?.ok === true;
          if (isCommitted) await this.#committed(this.#byKey.get(keyOf(instanceKey)), turn);
        }
        return results;
      },
      // The status is read after the example has closed the store.
      close: async () => undefined,
    };
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close();
  }

  #know(key: string, one: Pick<Instance, 'store' | 'instanceId' | 'orchestration'>): Instance {
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const alike = this.instances.filter(({ orchestration }) => orchestration === one.orchestration);
    const instance = { ...one, place: alike.length, waits: 0, maxWaits: 0 };
    this.instances.push(instance);
    this.#byKey.set(key, instance);
    return instance;
  }

  async #committed(instance: Instance | undefined, turn: Turn): Promise<void> {
    if (instance === undefined || turn.events.length === 0) return;
    if (turn.outcome.status === 'continuedAsNew') instance.waits = 0;
    if (turn.outcome.status !== 'running') return;
    instance.waits += 1;
    instance.maxWaits = Math.max(instance.maxWaits, instance.waits);
    const { store, instanceId, orchestration, place, waits } = instance;
    const target = this.#target;
    const isTarget =
      orchestration === target?.orchestration && place === target.place && waits === target.wait;
    if (!isTarget) return;
    const reason = 'at each wait';
    await store.requestCancel([{ instanceId, reason, actor: null, cleanupMs: 60_000 }]);
    this.#reached.resolve(instance);
  }
}

async function statusOf({ store, instanceId }: Instance): Promise<string> {
  const [record] = await store.getInstances([instanceId]);
  return record?.status ?? 'deleted';
}

/** Resolves with the status of an instance when it has ended. */
async function statusAtEnd(instance: Instance): Promise<string> {
  for (const until = Date.now() + endLimitMs; ; await delay(5)) {
    const status = await statusOf(instance);
    if (terminal.has(status) || Date.now() > until) return status;
  }
}

/** Runs the example until it ends or reaches the target, and returns the result of `read`. */
async function run<T>(
  number: number,
  watch: WaitWatch,
  read: (reached: Instance | undefined) => Promise<T>,
): Promise<T> {
  const opened: Perdure[] = [];
  Perdure.open = async (store, options) => {
    const perdure = await openReal(watch.wrap(await toProvider(store)), options);
    const startWorker = perdure.startWorker.bind(perdure);
    perdure.startWorker = (worker) => startWorker({ ...worker, shutdownGrace: 0 });
    opened.push(perdure);
    return perdure;
  };
  // A run must not find the files of an earlier one.
  mkdirSync(`run-${number}`);
  process.chdir(`run-${number}`);
  const store = stores[number];
  process.argv = [process.execPath, example, ...(store === undefined ? [] : [store])];
  const ended = import(`${pathToFileURL(example).href}?run=${number}`).catch(() => undefined);
  const result = await read(await Promise.race([watch.reached, ended.then(() => undefined)]));
  for (const perdure of opened) await perdure.close();
  // If the cancel prevents a handler that the example awaits, the example never ends. The timer keeps this process alive.
  await Promise.race([ended, delay(5_000)]);
  await watch.close();
  process.chdir('..');
  return result;
}

const openReal = Perdure.open.bind(Perdure);

async function toProvider(store: string | Provider): Promise<Provider> {
  if (typeof store !== 'string') return store;
  return store.startsWith('postgres') ? openPostgres({ url: store }) : openSqlite({ path: store });
}

/** Returns every wait of every orchestration, in the first instance that reaches it without failing. */
async function findTargets(): Promise<readonly Target[]> {
  const watch = new WaitWatch();
  return await run(0, watch, async () => {
    const targets = new Map<string, Target>();
    for (const instance of watch.instances) {
      if ((await statusOf(instance)) === 'failed') continue;
      const { orchestration, place, maxWaits } = instance;
      for (let wait = 1; wait <= maxWaits; wait += 1) {
        const key = `${orchestration}/${wait}`;
        if (!targets.has(key)) targets.set(key, { orchestration, place, wait });
      }
    }
    return [...targets.values()];
  });
}

const results: CanceledAtWait[] = [];
for (const [index, target] of (await findTargets()).entries()) {
  if (stores.length > 0 && index + 1 >= stores.length) break;
  const { orchestration, wait } = target;
  const watch = new WaitWatch(target);
  await run(index + 1, watch, async (reached) => {
    if (reached === undefined) return;
    results.push({ orchestration, wait, status: await statusAtEnd(reached) });
  });
}
print(`${JSON.stringify(results)}\n`, () => process.exit());
