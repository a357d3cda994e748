/**
 * Compares three independent records: the ledgers of the processes, the injected faults, and the database.
 *
 * V1. No acknowledged start is lost.
 * V2. Every instance has ended with the right result, and the client got each result that it requested.
 * V3. Histories have no gaps and end with their only terminal event. Every completion comes from one real execution.
 * V4. An operation is claimed again only for one of these reasons. Its lease expired, because its process did not run or
 * could not reach the store between claim and ack. Its process was killed. An attempt failed. Its process abandoned it,
 * even if that process was killed before it could record the response.
 * V5. A recorded completion comes from the last claim: a lost lease changes nothing, and nothing is claimed after its
 * completion has committed. An operation is acked at most once.
 * V6. Every execution of an effect has its own claim. One that began after the completion comes from a process that did
 * not run between the two.
 * V7. The stored state of an instance is that of its last turn. The code has read only its own writes.
 */
import {
  collectOperations,
  wasStopped,
  wasCutOff,
  type Claim,
  type OperationRecord,
  type ProcessRecord,
} from './operation-records.ts';
import { expectedResult } from '../helpers/scenarios.ts';
import type { StoredCompletion, StoredInstance, StoredState } from './stored-state.ts';

export interface VerifierReport {
  readonly violations: readonly string[];
  /** Not counting children. */
  readonly instances: number;
  readonly children: number;
  readonly executions: number;
  /** Executions beyond one per attempt, by what explains them. */
  readonly extra: Readonly<Record<'killed' | 'stoodStill' | 'cutOff', number>>;
  /** Effects begun by a process that resumed after another worker had completed them. */
  readonly zombies: number;
}

export async function verify(
  state: StoredState,
  accounts: readonly ProcessRecord[],
  leaseMs: number,
): Promise<VerifierReport> {
  const operations = collectOperations(accounts, leaseMs);
  const completions = await state.completions();
  const effects = [...operations.values()].map((operation) => checkClaims(operation, leaseMs));
  const results = completions.map((completion) =>
    checkCompletion(completion, operationOf(operations, completion), leaseMs),
  );
  const instances = await state.instances();
  return {
    violations: [
      ...checkStarts(instances, accounts),
      ...checkInstances(instances, hasOperators(accounts)),
      ...checkResults(accounts),
      ...(await state.brokenHistories()),
      ...(await state.leftovers()),
      ...(await state.wrongStates()),
      ...duplicates(completions.map(({ key }) => key)).map((key) => `${key} completed twice`),
      ...effects.flatMap(({ violations }) => violations),
      ...results.flatMap(({ violations }) => violations),
    ],
    instances: instances.filter(({ isRoot }) => isRoot).length,
    children: instances.filter(({ isRoot }) => !isRoot).length,
    executions: sum([...operations.values()].map(({ executions }) => executions.length)),
    extra: {
      killed: sum(effects.map(({ killed }) => killed)),
      stoodStill: sum(effects.map(({ slept }) => slept)),
      cutOff: sum(effects.map(({ cutOff }) => cutOff)),
    },
    zombies: sum(results.map(({ zombies }) => zombies)),
  };
}

function hasOperators(accounts: readonly ProcessRecord[]): boolean {
  return accounts.some(({ lines }) => lines.some(({ line }) => line === 'operated'));
}

/**
 * The operation of a completion. A retry delivers an outcome again that the execution before had received after its
 * cancel: then the operation is that of an earlier execution.
 */
function operationOf(
  operations: ReadonlyMap<string, OperationRecord>,
  { key, run }: StoredCompletion,
): OperationRecord | undefined {
  const [, base = '', execution = '', operation = ''] = /^(.*\/)(\d+)(\.\d+)$/.exec(key) ?? [];
  for (let id = Number(execution); id >= 1; id--) {
    const found = operations.get(`${base}${id}${operation}`);
    if (found?.executions.some((one) => one.run === run) === true) return found;
  }
  return operations.get(key);
}

function checkStarts(
  instances: readonly StoredInstance[],
  accounts: readonly ProcessRecord[],
): readonly string[] {
  const stored = new Set(instances.map(({ instanceId }) => instanceId));
  return accounts.flatMap(({ name, lines }) =>
    lines.flatMap((entry) =>
      entry.line === 'started' && !stored.has(entry.id)
        ? [`${entry.id}: its start was acknowledged to ${name}, but it is not there`]
        : [],
    ),
  );
}

function checkInstances(
  instances: readonly StoredInstance[],
  operators: boolean,
): readonly string[] {
  return instances.flatMap(({ instanceId, status, isRoot, output, failure }) => {
    // A child is canceled with an execution of its parent that an operator stopped.
    if (!isRoot && status === 'canceled' && operators) return [];
    if (status !== 'completed') return [`${instanceId} is ${status} ${failure ?? ''}`];
    const expected = expectedResult(instanceId);
    const isRight = !isRoot || (expected !== undefined && output === String(expected));
    return isRight ? [] : [`${instanceId} returned ${output} instead of ${expected}`];
  });
}

function checkResults(accounts: readonly ProcessRecord[]): readonly string[] {
  return accounts.flatMap(({ name, killedAt, lines }) => {
    const waiting = new Set<string>();
    const violations: string[] = [];
    for (const entry of lines) {
      if (entry.line === 'started') waiting.add(entry.id);
      else if (entry.line === 'trouble') violations.push(`${name}: ${entry.message}`);
      else if (entry.line === 'result') {
        waiting.delete(entry.id);
        if (entry.value !== expectedResult(entry.id)) {
          violations.push(`${name} got ${String(entry.value)} as the result of ${entry.id}`);
        }
      }
    }
    const lost =
      killedAt !== undefined
        ? []
        : [...waiting].map((id) => `${name} never got the result of ${id}`);
    return [...violations, ...lost];
  });
}

/** V4, the second half of V5, and the first half of V6. */
export function checkClaims({ key, claims, executions }: OperationRecord, leaseMs: number) {
  const violations: string[] = [];
  let killed = 0;
  let slept = 0;
  let cutOff = 0;
  for (const [index, claim] of claims.entries()) {
    const next = claims[index + 1];
    const mayBeAbandoned =
      claim.settled === 'abandoned' || (claim.settled === undefined && claim.isAbandoning === true);
    if (next === undefined || mayBeAbandoned) continue;
    // Other workers on its host take over before its leases expire.
    const wasKilled = (claim.account.killedAt ?? Infinity) <= next.until;
    const ran = executions.some(({ account }) => account === claim.account);
    const isStill = wasStopped(claim.account, {
      from: claim.heldUntil - leaseMs,
      to: next.until,
      leaseMs,
    });
    if (next.failures > claim.failures) {
      if (!executions.some(({ account, failed }) => account === claim.account && failed)) {
        violations.push(`${key} was retried by ${next.account.name}, but no attempt had failed`);
      }
    } else if (next.until < claim.heldUntil && !wasKilled) {
      violations.push(
        `${key} was claimed by ${next.account.name} while ${claim.account.name} held it`,
      );
    } else if (claim.settled === 'acked') {
      violations.push(
        `${key} was claimed by ${next.account.name} after ${claim.account.name} acked it`,
      );
    } else if (wasKilled) killed += ran ? 1 : 0;
    else if (isStill) slept += ran ? 1 : 0;
    else if (wasCutOff(claim.account, claim.since, next.until)) cutOff += ran ? 1 : 0;
    else
      violations.push(
        `${key} was claimed by ${next.account.name}, nothing was wrong with ${claim.account.name} (${describeClaims(claim, next)})`,
      );
  }
  if (claims.filter(({ settled }) => settled === 'acked').length > 1) {
    violations.push(`${key} was acked twice`);
  }
  for (const account of new Set(executions.map((execution) => execution.account))) {
    const ofAccount = (one: { readonly account: ProcessRecord }): boolean =>
      one.account === account;
    if (executions.filter(ofAccount).length > claims.filter(ofAccount).length) {
      violations.push(`${key} ran more often in ${account.name} than it was claimed there`);
    }
  }
  return { violations, killed, slept, cutOff };
}

/** The times of two consecutive claims, relative to the first. */
function describeClaims(claim: Claim, next: Claim): string {
  const after = (at: number): string => `${at - claim.since} ms`;
  return `held for ${after(claim.heldUntil)}, ${claim.settled ?? 'not settled'}, claimed again after ${after(next.since)}`;
}

/** The rest of V3, V5 and V6. */
function checkCompletion(
  { key, run, at }: StoredCompletion,
  operation: OperationRecord | undefined,
  leaseMs: number,
) {
  const execution = operation?.executions.find((one) => one.run === run);
  if (operation === undefined || execution === undefined || !execution.ended || execution.failed) {
    return { violations: [`${key} completed with ${run}, which never ran to its end`], zombies: 0 };
  }
  const violations: string[] = [];
  const claim = claimOf(operation.claims, execution);
  if (claim === undefined) return { violations: [ranWithoutClaim(execution)], zombies: 0 };
  for (const later of operation.claims.slice(operation.claims.indexOf(claim) + 1)) {
    violations.push(
      later.since > at
        ? `${key} was claimed by ${later.account.name} after its completion had committed`
        : `${key} was completed by ${claim.account.name}, whose lease was lost to ${later.account.name}`,
    );
  }
  let zombies = 0;
  for (const late of operation.executions.filter((one) => one.at > at && one !== execution)) {
    const since = claimOf(operation.claims, late)?.since;
    if (since === undefined) violations.push(ranWithoutClaim(late));
    else if (wasStopped(late.account, { from: since, to: late.at, leaseMs })) zombies += 1;
    else violations.push(`${key} began in ${late.account.name} after its completion had committed`);
  }
  return { violations, zombies };
}

interface Execution {
  readonly account: ProcessRecord;
  readonly at: number;
  readonly key: string;
}

/** The claim of an execution: the last one of its process before it. */
function claimOf(claims: readonly Claim[], execution: Execution): Claim | undefined {
  return claims.findLast(
    ({ account, since }) => account === execution.account && since <= execution.at,
  );
}

function ranWithoutClaim({ key, account }: Execution): string {
  return `${key} ran in ${account.name} without a claim`;
}

function duplicates(keys: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  return keys.filter((key) => seen.size === seen.add(key).size);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
