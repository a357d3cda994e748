import type { ResponseBody } from '../../api/operations.ts';
import { now } from '../../state/clock.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';

export type RunGraph = ResponseBody<'getFlowGraph'>;
/** A step of a flow run with its state. */
export type GraphNode = RunGraph['nodes'][number];

/** What a step does or waits for, in a few words. */
export function noteOf(node: GraphNode, graph?: RunGraph): string {
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
  if (node.status === 'skipped' && node.when !== undefined)
    return `when ${conditionText(node.when)}`;
  if (node.status === 'pending' && graph !== undefined) return waitsFor(node, graph);
  return '';
}

/** The steps that have to end before a step starts. */
function waitsFor(node: GraphNode, { nodes, edges }: RunGraph): string {
  const into = edges.filter(({ to }) => to === node.name);
  const states = new Map(nodes.map(({ name, status }) => [name, status]));
  const open = new Set(
    into
      .map(({ from }) => from)
      .filter((name) => ['pending', 'queued', 'running'].includes(states.get(name) ?? '')),
  );
  const [only] = open;
  if (only === undefined) return '';
  if (open.size > 1) return `Waits for ${open.size} steps`;
  return into.every(({ kind }) => kind === 'after') ? `after ${only}` : `Waits for ${only}`;
}

const signs: Readonly<Record<string, string>> = {
  eq: '=',
  ne: '≠',
  gt: '>',
  gte: '≥',
  ge: '≥',
  lt: '<',
  lte: '≤',
  le: '≤',
};

/** A condition as a short formula: `diffPrices > 5`. */
export function conditionText(condition: unknown): string {
  if (typeof condition !== 'object' || condition === null) return JSON.stringify(condition) ?? '';
  const { op, left, right, path, value } = condition as Readonly<Record<string, unknown>>;
  if (Array.isArray(path)) return path.join('.');
  if (value !== undefined) return JSON.stringify(value) ?? '';
  const sign = typeof op === 'string' ? signs[op] : undefined;
  if (sign !== undefined && left !== undefined && right !== undefined) {
    return `${conditionText(left)} ${sign} ${conditionText(right)}`;
  }
  return JSON.stringify(condition) ?? '';
}

/** How long a step has taken. */
export function timeOf({ startedAt, queuedAt, endedAt, status }: GraphNode): string {
  const from = startedAt ?? queuedAt;
  if (from === undefined) return '';
  if (endedAt !== undefined) return formatDuration(Math.max(0, endedAt - from));
  return status === 'running' || status === 'queued'
    ? formatDuration(Math.floor((now.value - from) / 1_000) * 1_000)
    : '';
}
