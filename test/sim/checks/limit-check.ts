import type Database from 'better-sqlite3';
import type { SetLimits } from '../../../src/providers/contract/limits.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { World } from '../engine/scheduler.ts';
import type { ClaimCheck } from './claim-check.ts';

interface Figures {
  readonly global?: number;
  readonly perKey?: number;
}

interface LimitCheckParams {
  readonly world: World;
  readonly claims: ClaimCheck;
  readonly db: Database.Database;
  /** The limits of the code, by the name of the definition. */
  readonly declared: Readonly<Record<string, Figures>>;
}

/** A row of `worker_queue` that is claimed and not flagged. */
interface ClaimedRow {
  readonly token: string;
  readonly lane: string | null;
}

/** Calls that can give out a place. */
const claiming: ReadonlySet<string> = new Set([
  'fetchWorkItems',
  'fetchOrchestrationItems',
  'ackOrchestrationItems',
  'ackTurns',
  'createInstances',
]);

/** Checks that no claim exceeds the limits that hold at its commit. A lowered limit ends no claim. */
export class LimitCheck {
  /** The limit keys of instances. */
  readonly keys = new Map<string, string | undefined>();
  readonly #params: LimitCheckParams;
  readonly #limits = new Map<string, Figures>();
  readonly #begun = new Set<string>();
  readonly #selectEnded;
  readonly #selectClaimed;
  readonly #places = new Map<string, number>();

  constructor(params: LimitCheckParams) {
    this.#params = params;
    for (const [name, limits] of Object.entries(params.declared)) this.#limits.set(name, limits);
    this.#selectEnded = params.db
      .prepare<[string], 1>('SELECT 1 FROM instances WHERE instance_id = ? AND ended_at IS NULL')
      .pluck();
    this.#selectClaimed = params.db.prepare<[], ClaimedRow>(
      `SELECT item_key || '.' || lock_token AS token, lane FROM worker_queue
       WHERE lock_token IS NOT NULL AND cancel_requested = 0`,
    );
  }

  observe({ method, args, result }: ObservedCall): void {
    if (method === 'setLimits') {
      const { name, override } = args[0] as SetLimits;
      const { global } = override ?? {};
      const declared = this.#params.declared[name] ?? {};
      this.#limits.set(name, { ...declared, ...(global != null && { global }) });
      return;
    }
    if (!claiming.has(method)) return;
    if (method === 'fetchOrchestrationItems') {
      for (const { instanceId } of result as readonly { readonly instanceId: string }[]) {
        this.#expectPlace(instanceId);
      }
    }
    this.#expectItems();
  }

  /** An instance is claimed: if it had not begun, a place was free. */
  #expectPlace(instanceId: string): void {
    if (this.#begun.has(instanceId) || !this.keys.has(instanceId)) return;
    this.#begun.add(instanceId);
    const isActive = (id: string): boolean => this.#selectEnded.get(id) === 1;
    const active = [...this.#begun].filter((id) => id.startsWith('g') && isActive(id));
    const lane = this.keys.get(instanceId);
    const own = active.filter((id) => this.keys.get(id) === lane);
    this.#compare('gated', 'all keys', active.length);
    this.#compare('gated', lane, own.length);
  }

  /** Compares the claimed items of each definition with its limits, if there are more of them than before. */
  #expectItems(): void {
    const unflagged = new Map(this.#selectClaimed.all().map(({ token, lane }) => [token, lane]));
    const counts = new Map<string, number>();
    for (const { name, token } of this.#params.claims.heldItems()) {
      const lane = unflagged.get(token);
      if (lane === undefined || !this.#limits.has(name)) continue;
      for (const key of [name, `${name}/${lane ?? ''}`])
        counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const [key, count] of counts) {
      const [name = '', lane] = key.split('/');
      // A lowered limit leaves more claims than it allows.
      if (count > (this.#places.get(key) ?? 0)) this.#compare(name, lane ?? 'all keys', count);
    }
    this.#places.clear();
    for (const [key, count] of counts) this.#places.set(key, count);
  }

  #compare(name: string, lane: string | undefined, count: number): void {
    const limits = this.#limits.get(name);
    const most = (lane === 'all keys' ? limits?.global : limits?.perKey) ?? Infinity;
    const { world } = this.#params;
    if (count === most)
      world.reached.add(`limit ${name} ${lane === 'all keys' ? 'global' : 'perKey'}`);
    if (count <= most) return;
    world.violate(`${count} of ${name} with ${lane} are claimed, at most ${most} are allowed`);
  }
}
