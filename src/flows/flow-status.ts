import type { InstanceInfo } from '../index.ts';

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
