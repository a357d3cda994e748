import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessRecord } from '../oracles/operation-records.ts';
import { FaultInjector } from './fault-injector.ts';
import { Fleet } from './fleet.ts';
import { Killer } from './killer.ts';
import { readLedger, type OperatorAction } from '../oracles/ledger.ts';
import { createSqliteLoopStore, type LoopStore } from './loop-store.ts';
import type { StoredState } from '../oracles/stored-state.ts';
import { verify, type VerifierReport } from '../oracles/verifier.ts';

export interface CrashLoopOptions {
  readonly kills: number;
  /** SIGSTOP for longer than a lease, then SIGCONT. */
  readonly pauses: number;
  /** Minimum number of instances, not counting children. */
  readonly instances: number;
  readonly workers?: number;
  readonly leaseMs?: number;
  readonly killEveryMs?: number;
  readonly fencing?: boolean;
  /** Immediate restarts of the server, and cuts of all its connections. Default: 0. */
  readonly restarts?: number;
  readonly cuts?: number;
  readonly disturbEveryMs?: number;
  /** Pauses, retries and cancels by an operator. Default: 0. */
  readonly actions?: number;
  /** Default: an SQLite file. */
  readonly createStore?: () => Promise<LoopStore>;
  readonly onProgress?: (text: string) => void;
}

export interface CrashReport extends VerifierReport {
  readonly kills: number;
  /** Kills that hit a worker with a live lease in the store. */
  readonly killsOfOpenClaims: number;
  /** The part of these that hit an ack in flight. */
  readonly killsOfAcks: number;
  readonly pauses: number;
  /** How many instances the operator changed, by action. */
  readonly operated: Readonly<Record<OperatorAction, number>>;
  /** Claims of killed workers that others took over before their leases expired. */
  readonly takenOver: number;
  readonly outages: number;
  /** Statements whose response was lost to a cut. */
  readonly cutAnswers: number;
  /** The longest time from the return of the server to the next event. */
  readonly longestRecoveryMs: number;
  readonly medianRecoveryMs: number;
  readonly seconds: number;
}

/** Repeats a loop with a fault until its report has such a violation. A pause hits a claim only by chance. */
export async function findViolations(
  expected: RegExp,
  loop: () => Promise<CrashReport>,
): Promise<readonly string[]> {
  for (let round = 0; round < 5; round++) {
    const { violations } = await loop();
    const found = violations.filter((violation) => expected.test(violation));
    if (found.length > 0) return found;
  }
  return [];
}

// Leases of dead workers may have to expire several times in sequence.
const settleLeases = 20;

/**
 * Runs workers and a client as real processes on one store. Kills and pauses workers under load, injects store faults,
 * lets the rest finish, and compares the ledgers of the processes with the store.
 */
export async function runCrashLoop(options: CrashLoopOptions): Promise<CrashReport> {
  const {
    leaseMs = 1_000,
    workers = 3,
    fencing = true,
    restarts = 0,
    cuts = 0,
    actions = 0,
  } = options;
  const { createStore = createSqliteLoopStore } = options;
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'perdure-crash-'));
  const loopStore = await createStore();
  const { store, state, faults } = loopStore;
  const fleet = new Fleet(folder, {
    store,
    leaseMs,
    fencing,
    outages: restarts + cuts > 0,
    operators: actions > 0,
  });
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
    const everyMs = options.disturbEveryMs ?? 300;
    const disturber = new FaultInjector({ faults, state, restarts, cuts, everyMs });
    const { instances } = options;
    const troubles = await load({
      fleet,
      state,
      killer,
      disturber,
      workers,
      instances,
      actions,
      settleMs: settleLeases * leaseMs,
    });
    const accounts = accountsOf(fleet, killer, disturber);
    const verdict = await verify(state, accounts, leaseMs);
    const { kills } = killer;
    return {
      ...verdict,
      violations: [...troubles, ...fleet.unexpectedExits, ...verdict.violations],
      kills: kills.length,
      killsOfOpenClaims: kills.filter(({ leases }) => leases > 0).length,
      killsOfAcks: kills.filter(({ settling }) => settling > 0).length,
      pauses: killer.pauses.length,
      ...countActions(accounts),
      outages: disturber.outages.length,
      cutAnswers: disturber.cutAnswers,
      longestRecoveryMs: Math.max(0, ...disturber.recoveriesMs),
      medianRecoveryMs: median(disturber.recoveriesMs),
      seconds: (performance.now() - startedAt) / 1_000,
    };
  } finally {
    await fleet.killAll();
    await loopStore.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface LoadParams {
  readonly fleet: Fleet;
  readonly state: StoredState;
  readonly killer: Killer;
  readonly disturber: FaultInjector;
  readonly workers: number;
  readonly instances: number;
  readonly actions: number;
  readonly settleMs: number;
}

/** Returns the errors of the processes as text. */
async function load(params: LoadParams): Promise<string[]> {
  const { fleet, state, killer, disturber, workers, instances, actions, settleMs } = params;
  await fleet.compile();
  for (let index = 0; index < workers; index++) fleet.startWorker();
  const client = fleet.startClient(24);
  const operator = actions > 0 ? fleet.startOperator(actions) : undefined;
  await Promise.all([killer.run(), disturber.run()]);
  while ((await state.rootCount()) < instances && !client.hasExited) await delay(100);
  fleet.startNoMore();
  client.tell('startNoMore');
  operator?.tell('startNoMore');
  const isOver = (): boolean => client.hasExited && operator?.hasExited !== false;
  const deadline = Date.now() + settleMs;
  while (Date.now() < deadline && ((await state.unfinished()).length > 0 || !isOver())) {
    await delay(50);
  }
  const stuck = await state.unfinished();
  if (stuck.length > 0) return [`${stuck.length} instances are stuck: ${stuck.slice(0, 5).join()}`];
  if (!isOver()) return ['The client or the operator still waits, though every instance is over.'];
  await fleet.stop();
  return [];
}

function accountsOf(
  fleet: Fleet,
  { kills, pauses }: Killer,
  { outages }: FaultInjector,
): readonly ProcessRecord[] {
  const killedAt = new Map(kills.map(({ worker, at }) => [worker, at]));
  return fleet.members.map(({ name, ledger }) => ({
    name,
    lines: readLedger(ledger),
    killedAt: killedAt.get(name),
    pauses: pauses.filter(({ worker }) => worker === name),
    outages,
  }));
}

function countActions(
  accounts: readonly ProcessRecord[],
): Pick<CrashReport, 'operated' | 'takenOver'> {
  const operated = { pause: 0, pauseDefinition: 0, retry: 0, cancelBulk: 0 };
  let takenOver = 0;
  for (const entry of accounts.flatMap(({ lines }) => lines)) {
    if (entry.line === 'operated') operated[entry.action] += entry.changed;
    else if (entry.line === 'tookOver') takenOver += entry.claims;
  }
  return { operated, takenOver };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
