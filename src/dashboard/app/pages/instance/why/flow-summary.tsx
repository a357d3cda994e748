import { Fragment } from 'preact';
import { call } from '../../../api/call.ts';
import { useResource } from '../../../state/resource.ts';
import { formatNumber, plural } from '../../../words/format.ts';
import type { GraphNode } from '../../flows/graph-node.ts';
import type { Why } from '../instance-data.ts';
import { Strong, type Told } from './sentence-parts.tsx';

const shownSteps = 2;
const refreshMs = 3_000;

/** What the steps of a flow run do. Nothing while it is not asked for, or not read yet. */
export function useFlowSummary(id: string, isWanted: boolean, why: Why): Told | undefined {
  const graph = useResource(
    `flow summary ${id} ${isWanted}`,
    (signal) =>
      isWanted ? call('getFlowGraph', { params: { id } }, signal) : Promise.resolve(undefined),
    { ...(isWanted && { everyMs: refreshMs }) },
  );
  const data = graph.data.value;
  if (data === undefined) return undefined;
  const atWork = data.nodes.filter(({ status }) => status === 'running');
  const signals = data.nodes.filter(
    ({ signal, status }) => signal?.received === false && !['skipped', 'canceled'].includes(status),
  );
  // A retry tells more than the steps that go on beside it.
  if (why.waits.some((wait) => 'state' in wait && wait.state === 'retrying')) return undefined;
  if (atWork.length === 0 && signals.length === 0) return undefined;
  const left = data.nodes.filter(
    ({ status }) => status === 'pending' || status === 'queued',
  ).length;
  const waiting = signals.map(({ name, signal }, index) => (
    <Fragment key={name}>
      {index > 0 && ', '}
      <Strong>{name}</Strong> waits for the signal{' '}
      <b>
        <bdi>{signal?.name}</bdi>
      </b>
    </Fragment>
  ));
  const rest =
    left === 0
      ? undefined
      : left === 1
        ? '1 step has not started.'
        : `${formatNumber(left)} steps have not started.`;
  if (atWork.length === 0) return { sentence: <>Step {waiting}.</>, consequence: rest };
  return {
    sentence: (
      <>
        Runs{' '}
        {atWork.slice(0, shownSteps).map((node, index) => (
          <Fragment key={node.name}>
            {index > 0 && ' and '}
            <Strong>{node.name}</Strong>
            {itemsOf(node)}
          </Fragment>
        ))}
        {atWork.length > shownSteps && ` and ${plural(atWork.length - shownSteps, 'other step')}`}.
        {signals.length > 0 && <> Step {waiting}.</>}
      </>
    ),
    consequence: rest,
  };
}

function itemsOf({ items }: GraphNode): string {
  if (items === undefined) return '';
  const all = Object.values(items).reduce((sum, count) => sum + count, 0);
  const failed = items.failed > 0 ? `, ${formatNumber(items.failed)} failed` : '';
  return `, ${formatNumber(items.completed)} of ${formatNumber(all)} items${failed}`;
}
