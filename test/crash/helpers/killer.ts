import { setTimeout as delay } from 'node:timers/promises';
import type { Fleet, Member } from './fleet.ts';
import { readLedger } from '../oracles/ledger.ts';
import type { StoredState } from '../oracles/stored-state.ts';

export interface Kill {
  readonly worker: string;
  readonly at: number;
  /** Leases of the victim that the store still held after its death. */
  readonly leases: number;
  /** The part of these that it was settling. */
  readonly settling: number;
}

export interface Pause {
  readonly worker: string;
  readonly from: number;
  to: number;
}

export interface KillerParams {
  readonly fleet: Fleet;
  readonly state: StoredState;
  readonly kills: number;
  readonly pauses: number;
  readonly leaseMs: number;
  /** Average time between two kills. */
  readonly everyMs: number;
  readonly onKill?: (done: number) => void;
}

// Under load a worker is without a claim for milliseconds. A busy machine needs longer to start one.
const idleLimitMs = 60_000;

// How long a busy machine may need to hand lost work to another worker. Rows that a stopped process has locked
// stay locked, and a longer stop would exceed the retry time of statements.
const takeOverMs = 4_000;

/** Kills workers under load, and pauses some for longer than their leases. */
export class Killer {
  readonly kills: Kill[] = [];
  readonly pauses: Pause[] = [];
  readonly #params: KillerParams;
  readonly #asleep = new Set<Member>();

  constructor(params: KillerParams) {
    this.#params = params;
  }

  async run(): Promise<void> {
    await Promise.all([this.#killAll(), this.#pauseAll()]);
  }

  async #killAll(): Promise<void> {
    const { kills, everyMs, onKill } = this.#params;
    while (this.kills.length < kills) {
      await delay(everyMs * (0.5 + Math.random()));
      await this.#kill(await this.#pickBusyWorker());
      onKill?.(this.kills.length);
    }
  }

  async #kill(victim: Member): Promise<void> {
    const { fleet, state } = this.#params;
    const at = Date.now();
    await fleet.replace(victim);
    // No other worker can take these leases before they expire, so the store shows what the victim held.
    const { held, settling } = victim.openClaims.read();
    const now = Date.now();
    const tokens = [...held];
    const live = await Promise.all(tokens.map((token) => state.isLeaseLive(token, now)));
    const leases = tokens.filter((_, index) => live[index]);
    this.kills.push({
      worker: victim.name,
      at,
      leases: leases.length,
      settling: leases.filter((token) => settling.has(token)).length,
    });
  }

  async #pauseAll(): Promise<void> {
    const { pauses, kills, everyMs, leaseMs } = this.#params;
    // Spread over the duration of the kills.
    const gapMs = pauses === 0 ? 0 : Math.max((kills * everyMs) / pauses - 2 * leaseMs, everyMs);
    while (this.pauses.length < pauses) {
      await delay(gapMs * Math.random());
      await this.#pause(await this.#pickBusyWorker());
    }
  }

  async #pause(worker: Member): Promise<void> {
    const { state, leaseMs } = this.#params;
    this.#asleep.add(worker);
    const pause: Pause = { worker: worker.name, from: Date.now(), to: Infinity };
    if (!worker.process.kill('SIGSTOP')) return;
    // A process that is stopped inside a transaction blocks all others: a lock, not a zombie.
    const isZombie = await state.isWritable();
    if (isZombie) {
      this.pauses.push(pause);
      await this.#loseLeases(worker);
    }
    worker.process.kill('SIGCONT');
    pause.to = Date.now();
    // Lets it meet the changed state before it is killed.
    if (isZombie) await delay(leaseMs / 4);
    this.#asleep.delete(worker);
  }

  /** Resolves once the leases of a paused worker have expired and another worker has claimed some of its work. */
  async #loseLeases(worker: Member): Promise<void> {
    const { state, leaseMs } = this.#params;
    const { held } = worker.openClaims.read();
    const keepsAll = async (tokens: readonly string[]): Promise<boolean> => {
      const kept = await Promise.all(tokens.map((token) => state.isLeaseLive(token, 0)));
      return kept.every(Boolean);
    };
    const stored: string[] = [];
    // Claims that it settled without recording that are no longer on its rows.
    for (const token of held) if (await keepsAll([token])) stored.push(token);
    await delay(leaseMs * 1.1);
    if (stored.length === 0) return;
    const deadline = Date.now() + takeOverMs;
    while (Date.now() < deadline && (await keepsAll(stored))) await delay(20);
  }

  /** A random worker that holds a claim according to its own ledger. */
  async #pickBusyWorker(): Promise<Member> {
    const { fleet } = this.#params;
    const deadline = Date.now() + idleLimitMs;
    while (Date.now() < deadline && fleet.unexpectedExits.length === 0) {
      const awake = fleet.workers.filter(
        (worker) => worker.isReady && !worker.hasExited && !this.#asleep.has(worker),
      );
      const worker = awake[Math.floor(Math.random() * awake.length)];
      if (worker !== undefined && worker.openClaims.read().held.size > 0) return worker;
      await delay(5);
    }
    const lastWords = fleet.workers.map(({ name, ledger }) => {
      return `${name}: ${JSON.stringify(readLedger(ledger).at(-1))}`;
    });
    throw new Error(
      `No worker is at work. ${[...fleet.unexpectedExits, ...lastWords].join('\n').slice(0, 4_000)}`,
    );
  }
}
