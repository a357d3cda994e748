import type Database from 'better-sqlite3';
import type { Clock } from '../../../src/model/clock.ts';
import type { NewInstance } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { CommitResult, Turn } from '../../../src/providers/contract/turn.ts';

/** An SQLite provider without faults, and a second connection to its file. */
export interface Intact {
  readonly provider: Provider;
  readonly db: Database.Database;
  readonly clock: Clock;
}

/** A provider with one guard removed. */
export interface BrokenProvider {
  /** What the broken provider does wrong. */
  readonly fault: string;
  /** The case that must reject it. */
  readonly rejectedBy: string;
  /** The methods that are broken; the others stay intact. */
  readonly override: (intact: Intact) => Partial<Provider>;
}

/** The key of the row that a token locks. */
export function lockedKey(lockToken: string): number {
  return Number(lockToken.split('.')[0]);
}

/** SQL that creates a trigger without effect. The store creates its triggers only where they are missing. */
export function withoutEffect(trigger: string, table: string): string {
  return `CREATE TRIGGER IF NOT EXISTS ${trigger} AFTER DELETE ON ${table} WHEN FALSE BEGIN SELECT 1; END`;
}

interface Tokens {
  readonly lockToken: string;
}

/** Calls `prepare` for every lock token before the method runs. */
export function beforeTokens<Item extends Tokens, Rest extends readonly unknown[], Result>(
  method: (items: readonly Item[], ...rest: Rest) => Promise<Result>,
  prepare: (lockToken: string) => void,
): (items: readonly Item[], ...rest: Rest) => Promise<Result> {
  return (items, ...rest) => {
    for (const { lockToken } of items) prepare(lockToken);
    return method(items, ...rest);
  };
}

/** Changes turns before they are committed, on every path. */
export function editTurns(
  { provider }: Intact,
  edit: (turn: Turn, instanceKey: number | undefined) => Turn,
): Partial<Provider> {
  return {
    ackOrchestrationItems: (acks) =>
      provider.ackOrchestrationItems(
        acks.map((ack) => ({ ...ack, turn: edit(ack.turn, lockedKey(ack.lockToken)) })),
      ),
    ackTurns: (acks) =>
      provider.ackTurns(acks.map((ack) => ({ ...ack, turn: edit(ack.turn, ack.instanceKey) }))),
    createInstances: (instances) =>
      provider.createInstances(
        instances.map((instance): NewInstance =>
          instance.firstTurn === undefined
            ? instance
            : { ...instance, firstTurn: edit(instance.firstTurn, undefined) },
        ),
      ),
  };
}

/** Runs code before and after the commit of each turn that acks messages. */
export function aroundTurns(
  { provider }: Intact,
  around: (instanceKey: number, turn: Turn) => (result: CommitResult) => void,
): Partial<Provider> {
  return {
    async ackOrchestrationItems(acks) {
      const endings = acks.map(({ lockToken, turn }) => around(lockedKey(lockToken), turn));
      const results = await provider.ackOrchestrationItems(acks);
      for (const [index, end] of endings.entries()) {
        const result = results[index];
        if (result !== undefined) end(result);
      }
      return results;
    },
  };
}
