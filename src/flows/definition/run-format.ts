import { PerdureError, type InstanceInfo, type Client } from '../../index.ts';
import type { RunInput } from './graph.ts';

/** What a run was started with; `undefined` while nobody has begun it. */
export async function readRunInput(client: Client, id: string): Promise<RunInput | undefined> {
  const { items } = await client.history(id, { limit: 1 });
  const first = items[0]?.event;
  if (first?.kind !== 'executionStarted') return undefined;
  return decodeRunInput(id, first.payload);
}

/** Reads the input of a run; throws for an instance that is none. */
export function decodeRunInput(id: string, payload: string | null): RunInput {
  const input = JSON.parse(payload ?? 'null') as Partial<RunInput> | null;
  if (typeof input === 'object' && input?.flow?.format === 1) return input as RunInput;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance '${id}' is not a run of a flow that this version can read. Look at it with client.get() and client.history().`,
  );
}

/** What a run shows of itself while it goes on: its custom status. */
export interface FlowStatus {
  /** The token of each signal that was taken. */
  readonly signals?: Readonly<Record<string, string>>;
  readonly completedEarly?: { readonly step: string; readonly reason: string };
}

/** What a run shows of itself. */
export function statusOf(info: InstanceInfo): FlowStatus {
  return (info.customStatus as FlowStatus | undefined) ?? {};
}

/** The token of the signal that a run has taken under a name, which may be one that every object has. */
export function takenSignal({ signals = {} }: FlowStatus, name: string): string | undefined {
  return Object.hasOwn(signals, name) ? signals[name] : undefined;
}

/** What the activity of a step answers: the handler's output, or that the flow is complete with it. */
export type StepResult =
  | { readonly output?: unknown; readonly attempt?: number }
  | { readonly early: true; readonly output?: unknown; readonly reason: string };

/** What a reduce is given for one batch. */
export interface ReduceInput {
  readonly accumulator?: unknown;
  readonly items: readonly unknown[];
  /** The place of the first of these items. */
  readonly offset: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** What the handler of an item is given. */
export interface ItemInput {
  readonly item?: unknown;
  readonly index: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** Items that a generator reports; `offset` is the place of the first. */
export interface GeneratedItems {
  readonly offset: number;
  readonly items: readonly unknown[];
}
