import { AsyncLocalStorage } from 'node:async_hooks';
import { GroupCommit } from '../../../src/providers/sqlite/batches/group-commit.ts';
import { WakeUps } from '../../../src/providers/sqlite/wakeups/wake-ups.ts';
import type { Topic } from '../../../src/providers/shared/effects.ts';
import type { SimProcess } from './scheduler.ts';

const callers = new AsyncLocalStorage<SimProcess>();
const due = new Set<Topic>();

/** Runs a call of the store for a process. Its claims get tokens of this process, although all share one provider. */
export function callAs<T>(process: SimProcess, call: () => T): T {
  return callers.run(process, call);
}

/** The id of the process whose call the store runs. */
export function callerId(): string | undefined {
  return callers.getStore()?.processId;
}

/** Returns the topics for which commits brought work since the last call. */
export function takeDue(): readonly Topic[] {
  if (due.size === 0) return [];
  const topics = [...due];
  due.clear();
  return topics;
}

/**
 * Makes each operation of a group run for the process that called it, and records for which fetches a commit brought work.
 * Returns a function that restores the originals.
 */
export function hookStore(): () => void {
  const run = methodOf(GroupCommit.prototype, 'run');
  const announce = methodOf(WakeUps.prototype, 'announce');
  GroupCommit.prototype.run = function runFor(operation, work) {
    const caller = callers.getStore();
    const workFor: typeof work =
      caller === undefined ? work : (scope) => callers.run(caller, () => work(scope));
    return run.call(this, operation, workFor) as never;
  };
  WakeUps.prototype.announce = function announceAndRecord(effects) {
    for (const topic of ['work', 'orchestrations'] as const) {
      if (effects.dueAt[topic] < Infinity) due.add(topic);
    }
    announce.call(this, effects);
  };
  due.clear();
  return () => {
    GroupCommit.prototype.run = run;
    WakeUps.prototype.announce = announce;
  };
}

/** A method of a class, as it is. */
function methodOf<T extends object, K extends keyof T>(prototype: T, name: K): T[K] {
  return Object.getOwnPropertyDescriptor(prototype, name)?.value as T[K];
}
