import { AsyncLocalStorage } from 'node:async_hooks';
import { currentScope } from '../../replay/cancellation/scope.ts';

/** The claim of the code that runs on the event loop. The watchdog uses it to act for a blocked process. */
export type LoopHold =
  | {
      readonly kind: 'turn';
      /** Id of its worker in the watchdog. Absent for a first turn, whose instance is not stored yet. */
      readonly watchdogId?: number;
      /** Used in messages, for example `a turn of orchestration "x"`. */
      readonly what: string;
      readonly instanceId: string;
      readonly orchestration?: string;
      /** Absent for a turn in memory. */
      readonly lockToken?: string;
      /** The claims of the work items whose outcomes a turn in memory applies. */
      readonly items?: readonly string[];
      /** Identifies an instance without a claim. Absent before its first committed turn. */
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
      /** Used in messages, for example `activity "x"`. */
      readonly what: string;
      readonly instanceId: string;
      readonly lockToken: string;
      readonly startedAt: number;
      /** The options of the `onFail` item, if the task has `onFail`. */
      readonly onFail?: { readonly options: string | null };
    };

/** Code that may block the event loop. */
export interface LoopHolder {
  describeHold(): LoopHold;
}

const storage = new AsyncLocalStorage<LoopHolder | undefined>();
// Before Node.js 24, an async context slows down every promise. There, only synchronous code is identified.
const isContextCheap = Number(process.versions.node.split('.')[0]) >= 24;
let synchronous: LoopHolder | undefined;

/** Calls a handler so that the watchdog can identify it. */
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

/** Describes the running code. The watchdog calls it through the inspector while this thread is blocked. */
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
