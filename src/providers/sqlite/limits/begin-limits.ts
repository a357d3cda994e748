import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import type { Lane, Limits } from '../../contract/limits.ts';
import type { Runnable } from '../../contract/orchestration-queue.ts';
import { chooseFairly, waitsForPlace, type FairLane } from '../../rules/limits.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { LimitRows } from './limit-rows.ts';

/** A limited orchestration. */
interface Gate {
  readonly definitionKey: number;
  readonly name: string;
  readonly limits: Limits;
  /** Whether the worker can run an instance with this definition. */
  readonly canRun: (definitionKey: number) => boolean;
}

interface GateState {
  readonly running: number;
  readonly vclock: number;
}

interface LaneRow {
  readonly lane: string;
  readonly weight: number;
  readonly vtime: number;
  readonly running: number;
}

interface WaitingLane extends LaneRow, FairLane {
  /** The last instance that was chosen from it. */
  after: number;
  /** Instances that the worker cannot run, and that left the lane. */
  left: number;
}

interface InstanceState {
  readonly status: InstanceStatus;
  readonly definitionKey: number;
  /** `null`: the instance neither waits nor has begun under a limit. */
  readonly hasBegun: 0 | 1 | null;
}

// Lanes that one round reads.
const lanesPerRound = 200;
// Idle lanes that a claim deletes in addition to two per admitted instance.
const minPruned = 50;
// Instances that the worker cannot run, of one lane. The next claim continues.
const maxLeft = 500;

/**
 * Limits of the instances of an orchestration that have begun and not ended.
 *
 * An instance takes a place with its first claim. If no place is free it waits in its lane: its row in `instance_locks`
 * has a negative definition key, like that of a paused instance, so that no claim finds it. The next claim of a worker
 * that can run the orchestration admits waiting instances while places are free. Triggers free the place of an instance
 * that ends or is deleted.
 *
 * An instance that began before its definition was limited takes a place even if none is free. So does one that is canceled
 * while it waits again: see `waitsForPlace`.
 *
 * A worker gives no place to an instance of a version that it cannot run: perhaps no worker can. Such an instance stops
 * waiting, and the next claim of a worker that can run it decides again.
 */
export class BeginLimits {
  readonly #definitions: Definitions;
  readonly #limitRows: LimitRows;
  #scope: Scope | undefined;
  #names: ReadonlySet<string> = new Set();
  readonly #gates;
  readonly #insertLane;
  readonly #copyLane;
  readonly #countBegun;
  readonly #countClaimed;
  readonly #addBegunLanes;
  readonly #setRunning;
  readonly #markAll;
  readonly #state;
  readonly #instance;
  readonly #addPlace;
  readonly #mark;
  readonly #park;
  readonly #addLane;
  readonly #countLane;
  readonly #countDefinition;
  readonly #readyLanes;
  readonly #nextWaiting;
  readonly #begin;
  readonly #unpark;
  readonly #leave;
  readonly #setLane;
  readonly #setClock;
  readonly #prune;

  constructor(
    db: Database.Database,
    {
      definitions,
      limitRows,
    }: { readonly definitions: Definitions; readonly limitRows: LimitRows },
  ) {
    this.#definitions = definitions;
    this.#limitRows = limitRows;
    this.#gates = db.prepare<[], { definitionKey: number; effective: string }>(
      `SELECT limits.definition_key AS definitionKey, effective FROM limits CROSS JOIN definitions USING (definition_key)
       WHERE kind = 'orchestration'`,
    );
    this.#insertLane = db.prepare<[number, string, number]>(
      'INSERT OR REPLACE INTO run_lanes (instance_key, lane, weight) VALUES (?, ?, ?)',
    );
    this.#copyLane = db.prepare<[number, number]>(
      `INSERT INTO run_lanes (instance_key, lane, weight)
       SELECT ?, lane, weight FROM run_lanes WHERE instance_key = ?`,
    );
    this.#countBegun = db.prepare<[{ definitionKey: number; keys: string }]>(
      `INSERT INTO instance_places (instance_key, definition_key, lane, has_begun)
       SELECT instances.instance_key, :definitionKey, coalesce(lane, ''), 1
       FROM instances LEFT JOIN run_lanes ON run_lanes.instance_key = instances.instance_key
       WHERE status IN ('running', 'canceling') AND definition_key IN (SELECT value FROM json_each(:keys))`,
    );
    // The next time of a locked row is the end of its lease, so the index skips instances that are due.
    this.#countClaimed = db.prepare<[{ definitionKey: number; keys: string; now: number }]>(
      `INSERT INTO instance_places (instance_key, definition_key, lane, has_begun)
       SELECT held.instance_key, :definitionKey, coalesce(lane, ''), 1
       FROM instance_locks AS held CROSS JOIN instances ON instances.instance_key = held.instance_key
         LEFT JOIN run_lanes ON run_lanes.instance_key = held.instance_key
       WHERE held.definition_key IN (SELECT value FROM json_each(:keys)) AND (claims > 1) IN (0, 1)
         AND next_at > :now AND next_at IS NOT NULL AND locked_until > :now AND status = 'pending'`,
    );
    this.#markAll = db.prepare<[number]>(
      `UPDATE instances SET limited = 1
       WHERE instance_key IN (SELECT instance_key FROM instance_places WHERE definition_key = ? AND has_begun = 1)`,
    );
    this.#addBegunLanes = db.prepare<[{ definitionKey: number }]>(
      `INSERT INTO lanes (definition_key, lane, running)
       SELECT definition_key, lane, count(*) FROM instance_places
       WHERE definition_key = :definitionKey AND has_begun = 1 GROUP BY lane`,
    );
    this.#setRunning = db.prepare<[{ definitionKey: number }]>(
      `UPDATE limits SET running = (
         SELECT count(*) FROM instance_places WHERE definition_key = :definitionKey AND has_begun = 1)
       WHERE definition_key = :definitionKey`,
    );
    this.#state = db.prepare<[number], GateState>(
      'SELECT running, vclock FROM limits WHERE definition_key = ?',
    );
    this.#instance = db.prepare<[number], InstanceState>(
      `SELECT status, instances.definition_key AS definitionKey, has_begun AS hasBegun
       FROM instances LEFT JOIN instance_places USING (instance_key) WHERE instance_key = ?`,
    );
    this.#addPlace = db.prepare<[{ instanceKey: number; definitionKey: number; hasBegun: 0 | 1 }]>(
      `INSERT INTO instance_places (instance_key, definition_key, lane, has_begun)
       VALUES (:instanceKey, :definitionKey,
         coalesce((SELECT lane FROM run_lanes WHERE instance_key = :instanceKey), ''), :hasBegun)
       ON CONFLICT (instance_key) DO NOTHING`,
    );
    this.#mark = db.prepare<[number]>('UPDATE instances SET limited = 1 WHERE instance_key = ?');
    this.#park = db.prepare<[number]>(
      'UPDATE instance_locks SET definition_key = -abs(definition_key) WHERE instance_key = ?',
    );
    // A new lane begins at the virtual time of the last claim.
    this.#addLane = db.prepare<[{ instanceKey: number; definitionKey: number }]>(
      `INSERT INTO lanes (definition_key, lane, weight, vtime, more, ready)
       SELECT :definitionKey, place.lane, coalesce(weight, 1), vclock, 1, 1
       FROM instance_places AS place CROSS JOIN limits LEFT JOIN run_lanes USING (instance_key)
       WHERE place.instance_key = :instanceKey AND limits.definition_key = :definitionKey
       ON CONFLICT (definition_key, lane) DO UPDATE SET weight = excluded.weight, more = 1, ready = 1`,
    );
    this.#countLane = db.prepare<[number]>(
      `UPDATE lanes SET running = running + 1 FROM instance_places AS place
       WHERE place.instance_key = ? AND lanes.definition_key = place.definition_key AND lanes.lane = place.lane`,
    );
    this.#countDefinition = db.prepare<[number]>(
      'UPDATE limits SET running = running + 1 WHERE definition_key = ?',
    );
    this.#readyLanes = db.prepare<[number, number], LaneRow>(
      `SELECT lane, weight, vtime, running FROM lanes WHERE definition_key = ? AND ready = 1
       ORDER BY vtime, lane LIMIT +?`,
    );
    this.#nextWaiting = db
      .prepare<[number, string, number], number>(
        `SELECT instance_key FROM instance_places
         WHERE definition_key = ? AND lane = ? AND has_begun = 0 AND instance_key > ? ORDER BY instance_key LIMIT 1`,
      )
      .pluck();
    this.#begin = db.prepare<[number]>(
      'UPDATE instance_places SET has_begun = 1 WHERE instance_key = ?',
    );
    this.#unpark = db.prepare<[number]>(
      'UPDATE instance_locks SET definition_key = abs(definition_key) WHERE instance_key = ?',
    );
    this.#leave = db.prepare<[number]>('DELETE FROM instance_places WHERE instance_key = ?');
    this.#setLane = db.prepare<
      [
        {
          definitionKey: number;
          lane: string;
          taken: number;
          vtime: number;
          more: 0 | 1;
          ready: 0 | 1;
        },
      ]
    >(
      `UPDATE lanes SET running = running + :taken, vtime = :vtime, more = :more, ready = :ready
       WHERE definition_key = :definitionKey AND lane = :lane`,
    );
    this.#setClock = db.prepare<[{ definitionKey: number; taken: number; vclock: number }]>(
      `UPDATE limits SET running = running + :taken, vclock = max(vclock, :vclock)
       WHERE definition_key = :definitionKey`,
    );
    this.#prune = db.prepare<[number, number]>(
      `DELETE FROM lanes WHERE (definition_key, lane) IN (
         SELECT definition_key, lane FROM lanes
         WHERE definition_key = ? AND running = 0 AND more = 0 AND wake_at IS NULL LIMIT +?)`,
    );
  }

  /** Stores the key of a new instance, if it has one. */
  addLane(instanceKey: number, lane: Lane | undefined): void {
    if (lane === undefined) return;
    this.#insertLane.run(instanceKey, lane.key, lane.weight);
    this.#mark.run(instanceKey);
  }

  /** Gives a fork the key of its source, if it has one. */
  copyLane(fromKey: number, toKey: number): void {
    if (this.#copyLane.run(toKey, fromKey).changes > 0) this.#mark.run(toKey);
  }

  /**
   * Counts the instances that have already begun, and those whose first turn is under way. Call it when an orchestration
   * becomes limited.
   */
  countBegun(definitionKey: number, now: number): void {
    const { name } = this.#definitions.get(definitionKey);
    const keys = this.#definitions.keysOf(['orchestration'], [name]);
    this.#countBegun.run({ definitionKey, keys: JSON.stringify(keys) });
    // The keys of paused instances are negative.
    const queueKeys = JSON.stringify(keys.flatMap((key) => [key, -key]));
    this.#countClaimed.run({ definitionKey, keys: queueKeys, now });
    this.#markAll.run(definitionKey);
    this.#addBegunLanes.run({ definitionKey });
    this.#setRunning.run({ definitionKey });
  }

  /**
   * The limited orchestrations of a worker, by name. `undefined` means all of the store. `transaction` identifies the
   * transaction that the call is part of.
   */
  gates(transaction: object, runnable: readonly Runnable[] | undefined): ReadonlyMap<string, Gate> {
    const gates = new Map<string, Gate>();
    if (!this.#limitRows.isAny(transaction)) return gates;
    const isRunnable = (one: { readonly name: string; readonly version: string | null }): boolean =>
      runnable === undefined ||
      runnable.some(({ name, version }) => one.name === name && one.version === version);
    const canRun = (key: number): boolean => isRunnable(this.#definitions.get(key));
    for (const { definitionKey, effective } of this.#gates.all()) {
      const { name } = this.#definitions.get(definitionKey);
      if (runnable === undefined || runnable.some((one) => one.name === name)) {
        const limits = JSON.parse(effective) as Limits;
        gates.set(name, { definitionKey, name, limits, canRun });
      }
    }
    return gates;
  }

  /** Whether the instances of an orchestration begin under a limit. */
  isLimited(scope: Scope, name: string): boolean {
    // No other process can change this before the commit.
    if (this.#scope !== scope) {
      this.#scope = scope;
      this.#names = new Set(this.gates(scope, undefined).keys());
    }
    return this.#names.has(name);
  }

  /** Lets a due instance wait if it needs a place. Returns whether it waits. */
  holdBack(gates: ReadonlyMap<string, Gate>, instanceKey: number): boolean {
    const instance = this.#instance.get(instanceKey);
    if (instance === undefined || instance.hasBegun === 1) return false;
    const gate = gates.get(this.#definitions.get(instance.definitionKey).name);
    if (gate === undefined) return false;
    const { definitionKey } = gate;
    this.#addPlace.run({ instanceKey, definitionKey, hasBegun: 0 });
    this.#mark.run(instanceKey);
    this.#addLane.run({ instanceKey, definitionKey });
    if (waitsForPlace(instance.status)) {
      this.#park.run(instanceKey);
      return true;
    }
    this.#begin.run(instanceKey);
    this.#countLane.run(instanceKey);
    this.#countDefinition.run(definitionKey);
    return false;
  }

  /** Gives free places to waiting instances, at most `max`. They can be claimed now. Deletes idle lanes. */
  admit(gates: ReadonlyMap<string, Gate>, max: number): void {
    for (const gate of gates.values()) {
      let taken = this.#admitRound(gate, max);
      while (taken === 'none yet') taken = this.#admitRound(gate, max);
      this.#prune.run(gate.definitionKey, minPruned + 2 * taken);
    }
  }

  /** Whether a waiting instance may find a free place. */
  canAdmit(gates: ReadonlyMap<string, Gate>): boolean {
    return [...gates.values()].some(
      (gate) => this.#free(gate) > 0 && this.#readyLanes.get(gate.definitionKey, 1) !== undefined,
    );
  }

  #free({ definitionKey, limits: { global } }: Gate): number {
    if (global === undefined) return Infinity;
    return Math.max(global - (this.#state.get(definitionKey)?.running ?? 0), 0);
  }

  /** Returns how many began. `none yet`: all lanes that were read turned out not to be ready, so others may be. */
  #admitRound(gate: Gate, max: number): number | 'none yet' {
    const { definitionKey, limits } = gate;
    const { perKey } = limits;
    const free = Math.min(max, this.#free(gate));
    if (free === 0) return 0;
    const rows = this.#readyLanes.all(definitionKey, lanesPerRound);
    const lanes: WaitingLane[] = rows.map((row) => ({
      ...row,
      allowance: perKey === undefined ? Infinity : perKey - row.running,
      after: 0,
      left: 0,
    }));
    const { shares, taken, vclock } = chooseFairly({
      lanes,
      max: free,
      vclock: this.#state.get(definitionKey)?.vclock ?? 0,
      take: (lane) => this.#take(gate, lane),
    });
    for (const { lane, taken: own, vtime, isEmpty } of shares) {
      if (own === 0 && !isEmpty && lane.allowance > 0) continue;
      const more = isEmpty && lane.left < maxLeft ? 0 : 1;
      const ready = more === 1 && own < lane.allowance ? 1 : 0;
      this.#setLane.run({ definitionKey, lane: lane.lane, taken: own, vtime, more, ready });
    }
    this.#setClock.run({ definitionKey, taken, vclock });
    return taken === 0 && rows.length === lanesPerRound ? 'none yet' : taken;
  }

  #take({ definitionKey, canRun }: Gate, lane: WaitingLane): boolean {
    while (lane.left < maxLeft) {
      const instanceKey = this.#nextWaiting.get(definitionKey, lane.lane, lane.after);
      if (instanceKey === undefined) return false;
      lane.after = instanceKey;
      this.#unpark.run(instanceKey);
      const instance = this.#instance.get(instanceKey);
      if (instance === undefined || canRun(instance.definitionKey)) {
        this.#begin.run(instanceKey);
        return true;
      }
      this.#leave.run(instanceKey);
      lane.left += 1;
    }
    return false;
  }
}
