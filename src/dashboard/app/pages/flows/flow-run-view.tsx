import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Segments } from '../../components/panel.tsx';
import { Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatNumber } from '../../words/format.ts';
import { isActive } from '../../words/status.ts';
import { FlowGraph } from './flow-graph.tsx';
import type { GraphNode } from './graph-node.ts';
import { StepList } from './step-list.tsx';
import { StepPanel } from './step-panel.tsx';

/** Above this number of steps the list is shown first, and the graph in parts. */
const manySteps = 300;
const order: readonly GraphNode['status'][] = [
  'completed',
  'running',
  'queued',
  'pending',
  'failed',
  'skipped',
  'canceled',
];

/** The graph of a flow run with live states, or its steps as a list. */
export function FlowRunView({ id }: { readonly id: string }): JSX.Element {
  const [isOver, setOver] = useState(false);
  const graph = useResource(
    `graph ${id} ${isOver}`,
    (signal) => call('getFlowGraph', { params: { id } }, signal),
    {
      ...(!isOver && { everyMs: 1_500 }),
    },
  );
  const data = graph.data.value;
  // The code of the layout loads while the graph is read.
  useEffect(() => void import('./graph-layout.ts').catch(() => undefined), []);
  useEffect(() => {
    if (data !== undefined && !isActive(data.status)) setOver(true);
  }, [data?.status]);
  const counts = useMemo(() => {
    const all = Map.groupBy(data?.nodes ?? [], ({ status }) => status);
    return order.flatMap((status) => {
      const count = all.get(status)?.length ?? 0;
      return count === 0 ? [] : [[status, count] as const];
    });
  }, [data]);
  if (data === undefined) {
    return graph.error.value === undefined ? (
      <Loading />
    ) : (
      <Problem error={graph.error.value} retry={() => graph.reload()} />
    );
  }
  const view = query.value.get('view') ?? (data.nodes.length > manySteps ? 'list' : 'graph');
  const chosen = data.nodes.find(({ name }) => name === query.value.get('step'));
  const select = (name: string | undefined): void => setQuery({ step: name }, { replace: true });
  return (
    <div class={chosen === undefined ? '' : 'split'}>
      <div class="flow-main">
        <div class="tl-tools">
          {counts.map(([status, count]) => (
            <Status key={status} tone={status} text={`${formatNumber(count)} ${status}`} />
          ))}
          <div class="right only-l">
            <Segments
              label="View"
              value={view}
              options={[
                ['graph', 'Graph'],
                ['list', 'List'],
              ]}
              onChange={(value) => setQuery({ view: value }, { replace: true })}
            />
          </div>
        </div>
        {view === 'graph' && (
          <div class="only-l">
            <FlowGraph graph={data} selected={chosen?.name} onSelect={select} />
          </div>
        )}
        <div class={view === 'graph' ? 'only-s' : ''}>
          <StepList graph={data} selected={chosen?.name} onSelect={select} />
        </div>
      </div>
      {chosen !== undefined && (
        <StepPanel key={chosen.name} id={id} node={chosen} onClose={() => select(undefined)} />
      )}
    </div>
  );
}
