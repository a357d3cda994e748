import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Perdure } from '../../src/index.ts';
import type { ProcessAccount } from './accounts.ts';
import { Fleet } from './fleet.ts';
import { Killer } from './killer.ts';
import { readLedger } from './ledger.ts';
import { StoredState } from './stored-state.ts';
import { verify, type Verdict } from './verifier.ts';

export interface CrashLoopOptions {
  readonly kills: number;
  /** SIGSTOP for longer than a lease, then SIGCONT. */
  readonly pauses: number;
  /** At least this many, not counting children. */
  readonly instances: number;
  readonly workers?: number;
  readonly leaseMs?: number;
  readonly killEveryMs?: number;
  readonly fencing?: boolean;
  readonly onProgress?: (text: string) => void;
}

export interface CrashReport extends Verdict {
  readonly kills: number;
  /** Kills that hit a worker with a live lease in the store. */
  readonly killsOfOpenClaims: number;
  /** Of these, kills that hit an ack on its way. */
  readonly killsOfAcks: number;
  readonly pauses: number;
  readonly seconds: number;
}

const settleMs = 20_000;

/**
 * Runs workers and a client as real processes on one file, kills and pauses workers under load, lets the rest
 * finish, and compares what the processes did with what the store says.
 */
export async function runCrashLoop(options: CrashLoopOptions): Promise<CrashReport> {
  const { leaseMs = 1_000, workers = 3, fencing = true } = options;
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'perdure-crash-'));
  const store = join(folder, 'store.db');
  await (await Perdure.open(store)).close();
  const fleet = new Fleet(folder, { store, leaseMs, fencing });
  const state = new StoredState(store);
  try {
    const killer = new Killer({
      fleet,
      state,
      kills: options.kills,
      pauses: options.pauses,
      leaseMs,
      everyMs: options.killEveryMs ?? 300,
      onKill: (done) => options.onProgress?.(`${done} of ${options.kills} kills`),
    });
    const troubles = await load({ fleet, state, killer, workers, instances: options.instances });
    const verdict = verify(state, accountsOf(fleet, killer), leaseMs);
    const { kills } = killer;
    return {
      ...verdict,
      violations: [...troubles, ...fleet.unexpectedExits, ...verdict.violations],
      kills: kills.length,
      killsOfOpenClaims: kills.filter(({ leases }) => leases > 0).length,
      killsOfAcks: kills.filter(({ settling }) => settling > 0).length,
      pauses: killer.pauses.length,
      seconds: (performance.now() - startedAt) / 1_000,
    };
  } finally {
    await fleet.killAll();
    state.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface LoadParams {
  readonly fleet: Fleet;
  readonly state: StoredState;
  readonly killer: Killer;
  readonly workers: number;
  readonly instances: number;
}

/** Answers what went wrong on the way, in words. */
async function load({ fleet, state, killer, workers, instances }: LoadParams): Promise<string[]> {
  for (let index = 0; index < workers; index++) fleet.startWorker();
  const client = fleet.startClient(80);
  await killer.run();
  while (state.rootCount() < instances && !client.hasExited) await delay(100);
  fleet.startNoMore();
  client.tell('startNoMore');
  const deadline = Date.now() + settleMs;
  while (Date.now() < deadline && (state.unfinished().length > 0 || !client.hasExited)) {
    await delay(50);
  }
  const stuck = state.unfinished();
  if (stuck.length > 0) return [`${stuck.length} instances are stuck: ${stuck.slice(0, 5).join()}`];
  if (!client.hasExited) return ['The client still waits, though every instance is over.'];
  await fleet.stop();
  return [];
}

function accountsOf(fleet: Fleet, { kills, pauses }: Killer): readonly ProcessAccount[] {
  const killedAt = new Map(kills.map(({ worker, at }) => [worker, at]));
  return fleet.members.map(({ name, ledger }) => ({
    name,
    lines: readLedger(ledger),
    killedAt: killedAt.get(name),
    pauses: pauses.filter(({ worker }) => worker === name),
  }));
}
