import type { ResponseBody } from '../../api/operations.ts';
import { now } from '../../state/clock.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';

export type RunGraph = ResponseBody<'getFlowGraph'>;
/** A step of a flow run with its state. */
export type GraphNode = RunGraph['nodes'][number];

/** What a step does, in a few words. */
export function noteOf(node: GraphNode): string {
  if (node.items !== undefined) {
    const all = Object.values(node.items).reduce((sum, count) => sum + count, 0);
    return `${formatNumber(node.items.completed)} of ${formatNumber(all)}`;
  }
  if (
    node.signal !== undefined &&
    !node.signal.received &&
    !['skipped', 'canceled'].includes(node.status)
  ) {
    return `Waits for signal ${node.signal.name}`;
  }
  if (node.failure !== undefined) return node.failure.message;
  if (node.reason !== undefined) return node.reason;
  return '';
}

/** How long a step has taken. */
export function timeOf({ startedAt, queuedAt, endedAt, status }: GraphNode): string {
  const from = startedAt ?? queuedAt;
  if (from === undefined) return '';
  if (endedAt !== undefined) return formatDuration(endedAt - from);
  return status === 'running' || status === 'queued'
    ? formatDuration(Math.floor((now.value - from) / 1_000) * 1_000)
    : '';
}
