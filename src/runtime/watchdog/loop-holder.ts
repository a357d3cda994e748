import { AsyncLocalStorage } from 'node:async_hooks';
import { currentScope } from '../../replay/cancellation/scope.ts';

/** The claim under which code holds the event loop, as the watchdog needs it to act for a process that cannot. */
export type LoopHold =
  | {
      readonly kind: 'turn';
      /** The worker that runs it; absent for a first turn, of which the store knows nothing yet. */
      readonly watchdogId?: number;
      /** For messages: `a turn of orchestration "x"`. */
      readonly what: string;
      readonly instanceId: string;
      readonly orchestration?: string;
      /** Absent for a turn in memory. */
      readonly lockToken?: string;
      /** The claims on the work whose outcomes a turn in memory applies. */
      readonly items?: readonly string[];
      /** What an instance without a claim is recognized by; absent before its first committed turn. */
      readonly fences?: {
        readonly instanceKey: number;
        readonly incarnation: string;
        readonly executionId: number;
        readonly lastTurn: string;
      };
    }
  | {
      readonly kind: 'handler';
      readonly watchdogId: number;
      /** For messages: `activity "x"`. */
      readonly what: string;
      readonly instanceId: string;
      readonly lockToken: string;
      readonly startedAt: number;
      /** The options of the handler for failures, if there is one. */
      readonly onFail?: { readonly options: string | null };
    };

/** Code that may hold the event loop. */
export interface LoopHolder {
  describeHold(): LoopHold;
}

const storage = new AsyncLocalStorage<LoopHolder | undefined>();
// Older versions pay for an async context with every promise of the process: there, only synchronous code is known.
const isContextCheap = Number(process.versions.node.split('.')[0]) >= 24;
let synchronous: LoopHolder | undefined;

/** Calls a handler such that the watchdog can tell what it belongs to. */
export function runAsHolder<T>(holder: LoopHolder, body: () => T): T {
  if (isContextCheap) return storage.run(holder, body);
  const outer = synchronous;
  synchronous = holder;
  try {
    return body();
  } finally {
    synchronous = outer;
  }
}

/** Describes the code that runs now. The watchdog calls it in the middle of whatever blocks this thread. */
export function describeHold(): LoopHold | undefined {
  const execution = currentScope()?.execution;
  if (execution === undefined) return (storage.getStore() ?? synchronous)?.describeHold();
  const { holder, instanceId = '' } = execution;
  if (isHolder(holder)) return holder.describeHold();
  return { kind: 'turn', what: 'the first turn of an instance', instanceId };
}

function isHolder(value: unknown): value is LoopHolder {
  return typeof value === 'object' && value !== null && 'describeHold' in value;
}
