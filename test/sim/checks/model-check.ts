import type { Provider } from '../../../src/providers/contract/provider.ts';
import { HistoryCheck } from '../../model/helpers/check-history.ts';
import { observeCall } from '../../model/helpers/observe-call.ts';
import { ReferenceModel } from '../../model/helpers/reference-model.ts';
import { writeMethods, type StoreCall } from '../../model/helpers/store-call.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { World } from '../engine/scheduler.ts';

/** Ids of instances that the reference model follows begin with this. */
export const scriptPrefix = 's';

interface Entry {
  readonly instanceId?: string;
  readonly instanceIds?: readonly string[];
  readonly source?: { readonly instanceId: string };
  readonly incarnation?: string;
  readonly lockToken?: string;
}

const observed: ReadonlySet<string> = new Set(writeMethods);
const isScript = (id: string | undefined): boolean => id?.startsWith(scriptPrefix) === true;

/** Compares the scripted instances with the reference model of `test/model`, after each commit. */
export class ModelCheck {
  readonly model: ReferenceModel;
  readonly #world: World;
  readonly #store: Provider;
  readonly #now: () => number;
  #hasChanged = false;

  constructor(world: World, store: Provider, now: () => number) {
    this.#world = world;
    this.#store = store;
    this.#now = now;
    this.model = new ReferenceModel({ now, violate: (what) => world.violate(what) });
  }

  observe(observedCall: ObservedCall): void {
    // The result of a takeover also counts leases of instances that the model does not have.
    const isTakeover = observedCall.method === 'takeOverClaims';
    if (isTakeover || !observed.has(observedCall.method)) return;
    const call = this.#project(observedCall);
    if (call === undefined) return;
    observeCall(this.model, call, this.#now());
    this.#hasChanged = true;
  }

  /** All leases of a process end now. */
  takenOver(processId: string): void {
    this.model.takeOver([processId]);
  }

  /** All commits of a step are observed: the store must agree with the model. */
  compare(): void {
    if (!this.#hasChanged) return;
    this.#hasChanged = false;
    const ids = [...this.model.instances.keys(), ...this.model.gone];
    // The read happens in this call; only its result comes later.
    void this.#compare(this.#store.getInstances(ids));
  }

  async #compare(read: ReturnType<Provider['getInstances']>): Promise<void> {
    for (const record of await read) if (record !== undefined) this.model.compare(record);
  }

  /** Checks the histories after all instances have ended. */
  async checkHistories(): Promise<void> {
    for (const instance of this.model.instances.values()) {
      for (const what of await new HistoryCheck(this.#store, instance).run()) {
        this.#world.violate(what);
      }
    }
  }

  /** The part of a call that concerns scripted instances. */
  #project({ method, args, result }: ObservedCall): StoreCall | undefined {
    if (method === 'fetchWorkItems' || method === 'fetchOrchestrationItems') {
      const items = (result as readonly Entry[]).filter(({ instanceId }) => isScript(instanceId));
      return items.length === 0 ? undefined : ({ method, args, result: items } as never);
    }
    if (method === 'markPointOfNoReturn') {
      return this.#isOwn(String(args[0])) ? ({ method, args, result } as never) : undefined;
    }
    if (!Array.isArray(args[0])) return undefined;
    const entries = args[0] as readonly (Entry | string)[];
    const kept = entries.flatMap((entry, index) => (this.#concerns(entry) ? [index] : []));
    if (kept.length === 0) return undefined;
    return {
      method,
      args: [kept.map((index) => entries[index]), ...args.slice(1)],
      result: kept.map((index) => (result as readonly unknown[])[index]),
    } as never;
  }

  #concerns(entry: Entry | string): boolean {
    if (typeof entry === 'string') return this.#isOwn(entry);
    if (entry.lockToken !== undefined) return this.#isOwn(entry.lockToken);
    if (entry.instanceIds !== undefined) return isScript(entry.instanceIds.at(-1));
    if (entry.source !== undefined) return isScript(entry.source.instanceId);
    if (entry.instanceId !== undefined) return isScript(entry.instanceId);
    const { instances } = this.model;
    return [...instances.values()].some(({ incarnation }) => incarnation === entry.incarnation);
  }

  #isOwn(token: string): boolean {
    const { tokens, claims, deletedClaims } = this.model;
    return tokens.has(token) || claims.has(token) || deletedClaims.has(token);
  }
}
