import { setTimeout as delay } from 'node:timers/promises';
import type { Fleet, Member } from './fleet.ts';
import { readLedger } from './oracles/ledger.ts';
import type { StoredState } from './oracles/stored-state.ts';

export interface Kill {
  readonly worker: string;
  readonly at: number;
  /** Leases of the victim that the store still held when it was dead. */
  readonly leases: number;
  /** How many of these it was just settling. */
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
  /** Time between two kills, on average. */
  readonly everyMs: number;
  readonly onKill?: (done: number) => void;
}

// Under load a worker is without a claim for milliseconds; a busy machine takes longer to start one.
const idleLimitMs = 60_000;

// How long a machine that is busy may take to hand what was lost to another worker. Rows that a process holds in its sleep
// go to nobody, and a longer sleep would outlast the time in which statements are tried again.
const takeOverMs = 4_000;

/** Kills workers under load, and puts some to sleep for longer than their leases. */
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
    // Nobody else can have these leases before they run out, so what the store shows is what the victim held.
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
    // Spread over the time that the kills will take.
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
    // One that sleeps inside a transaction stops everybody: that is a lock, not a zombie.
    const isZombie = await state.isWritable();
    if (isZombie) {
      this.pauses.push(pause);
      await this.#loseLeases(worker);
    }
    worker.process.kill('SIGCONT');
    pause.to = Date.now();
    // Let it meet what has changed before anyone kills it.
    if (isZombie) await delay(leaseMs / 4);
    this.#asleep.delete(worker);
  }

  /** Resolves once the leases of a worker that sleeps have run out and somebody has taken over some of its work. */
  async #loseLeases(worker: Member): Promise<void> {
    const { state, leaseMs } = this.#params;
    const { held } = worker.openClaims.read();
    const keepsAll = async (tokens: readonly string[]): Promise<boolean> => {
      const kept = await Promise.all(tokens.map((token) => state.isLeaseLive(token, 0)));
      return kept.every(Boolean);
    };
    const stored: string[] = [];
    // What it had settled without writing it down is not on its rows any more.
    for (const token of held) if (await keepsAll([token])) stored.push(token);
    await delay(leaseMs * 1.1);
    if (stored.length === 0) return;
    const deadline = Date.now() + takeOverMs;
    while (Date.now() < deadline && (await keepsAll(stored))) await delay(20);
  }

  /** A random worker that holds a claim by its own account, at this moment. */
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
