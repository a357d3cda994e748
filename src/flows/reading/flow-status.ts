import type { InstanceInfo } from '../../index.ts';

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
