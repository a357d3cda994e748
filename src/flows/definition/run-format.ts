import { PerdureError, type Client, type InstanceInfo, type InstanceStatus } from '../../index.ts';
import type { RunInput } from './graph.ts';

/** Reads the input of a run; `undefined` while no worker has started it. */
export async function readRunInput(client: Client, id: string): Promise<RunInput | undefined> {
  const { items } = await client.history(id, { limit: 1 });
  const first = items[0]?.event;
  if (first?.kind !== 'executionStarted') return undefined;
  return decodeRunInput(id, first.payload);
}

/** Decodes the input of a run. Throws `INVALID_INPUT` if the instance is not a run of a flow. */
export function decodeRunInput(id: string, payload: string | null): RunInput {
  const input = JSON.parse(payload ?? 'null') as Partial<RunInput> | null;
  if (typeof input === 'object' && input?.flow?.format === 1) return input as RunInput;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${JSON.stringify(id)} is not a flow run that this version can read. Use client.get() and client.history() instead.`,
  );
}

/** The custom status of a run. */
export interface FlowStatus {
  /** The token of each signal that the run received, by signal name. */
  readonly signals?: Readonly<Record<string, string>>;
  readonly completedEarly?: { readonly step: string; readonly reason: string };
}

export function statusOf(info: InstanceInfo): FlowStatus {
  return (info.customStatus as FlowStatus | undefined) ?? {};
}

/** Returns the token of a signal that the run received. Safe for names such as `constructor`. */
export function takenSignal({ signals = {} }: FlowStatus, name: string): string | undefined {
  return Object.hasOwn(signals, name) ? signals[name] : undefined;
}

/** Whether a run in this status starts steps and receives signals. */
export function isActive(status: InstanceStatus): boolean {
  return status === 'pending' || status === 'running';
}

/** The result of a step's activity: the handler's output, or an early completion of the flow. */
export type StepResult =
  | { readonly output?: unknown; readonly attempt?: number }
  | { readonly early: true; readonly output?: unknown; readonly reason: string };

/** The activity input for one batch of a reduce. */
export interface ReduceInput {
  readonly accumulator?: unknown;
  readonly items: readonly unknown[];
  /** The index of the first item of the batch. */
  readonly offset: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** The activity input for one item of a map or generator. */
export interface ItemInput {
  readonly item?: unknown;
  readonly index: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** A batch of items that a generator sends to its run as an event. */
export interface GeneratedItems {
  /** The index of the first item of the batch. */
  readonly offset: number;
  readonly items: readonly unknown[];
}
