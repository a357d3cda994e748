import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Button } from '../../components/button.tsx';
import { LoadState, Problem } from '../../components/states.tsx';
import { Status, StatusChip } from '../../components/status.tsx';
import { Moment } from '../../components/text.tsx';
import { useResource } from '../../state/resource.ts';
import { formatNumber } from '../../words/format.ts';
import { Value } from '../instance/payloads.tsx';
import { FailureView } from '../instance/event-panel.tsx';
import { ItemBar } from './item-bar.tsx';
import { ItemCells } from './item-cells.tsx';
import { conditionText, timeOf, type GraphNode } from './graph-node.ts';

const pageItems = 100;

/** One step of a flow run: times, output, failure, and the items of a map. */
export function StepPanel({
  id,
  node,
  onClose,
}: {
  readonly id: string;
  readonly node: GraphNode;
  readonly onClose: () => void;
}): JSX.Element {
  const run = useResource(`flow run ${id} ${node.name} ${node.status}`, (signal) =>
    call('getFlowRun', { params: { id } }, signal),
  );
  const step = run.data.value?.steps.find(({ name }) => name === node.name);
  return (
    <aside class="aside" aria-label={`Step ${node.name}`}>
      <div class="ph">
        <h2 class="cut">
          <bdi>{node.name}</bdi>
        </h2>
        {node.kind !== 'step' && <span class="dim">{node.kind}</span>}
        <StatusChip tone={node.status} />
        <span class="grow" />
        <Button small look="ghost" icon="close" label="Close" onClick={onClose} />
      </div>
      {node.items !== undefined && (
        <div class="sect">
          <ItemBar big items={node.items} />
          <div class="cnt">
            {(['completed', 'running', 'failed', 'queued', 'pending'] as const)
              .filter((status) => status === 'completed' || (node.items?.[status] ?? 0) > 0)
              .map((status) => (
                <div key={status}>
                  <Status tone={status} />
                  <b>{formatNumber(node.items?.[status] ?? 0)}</b>
                </div>
              ))}
          </div>
        </div>
      )}
      <div class="sect">
        <dl class="kv">
          {node.startedAt !== undefined && (
            <>
              <dt>Started</dt>
              <dd>
                <Moment at={node.startedAt} />
              </dd>
            </>
          )}
          {timeOf(node) !== '' && (
            <>
              <dt>Duration</dt>
              <dd>{timeOf(node)}</dd>
            </>
          )}
          {node.attempts !== undefined && (
            <>
              <dt>Attempts</dt>
              <dd>{node.attempts}</dd>
            </>
          )}
          {node.worker !== undefined && (
            <>
              <dt>Worker</dt>
              <dd>
                <bdi>{node.worker}</bdi>
              </dd>
            </>
          )}
          {node.signal !== undefined && (
            <>
              <dt>Signal</dt>
              <dd>
                <bdi>{node.signal.name}</bdi>,{' '}
                {node.signal.received ? 'received' : 'not received yet'}
              </dd>
            </>
          )}
          {node.reason !== undefined && (
            <>
              <dt>Reason</dt>
              <dd>
                <bdi>{node.reason}</bdi>
              </dd>
            </>
          )}
          {node.when !== undefined && (
            <>
              <dt>Condition</dt>
              <dd>
                <code>
                  <bdi>{conditionText(node.when)}</bdi>
                </code>
              </dd>
            </>
          )}
        </dl>
      </div>
      {step?.failure !== undefined && (
        <div class="sect">
          <h3>Failure</h3>
          <FailureView failure={step.failure} />
        </div>
      )}
      {run.error.value !== undefined && (
        <Problem error={run.error.value} retry={() => run.reload()} />
      )}
      {node.items !== undefined && <ItemCells id={id} node={node} />}
      {node.items !== undefined && <Items id={id} node={node} />}
      {node.items === undefined && step !== undefined && (
        <div class="sect">
          <h3>Output</h3>
          {step.outputOmitted === true ? (
            <p class="dim">Too large to show here.</p>
          ) : (
            <Value
              value={step.output}
              label="output"
              none={node.endedAt === undefined ? 'None yet' : 'None'}
            />
          )}
        </div>
      )}
    </aside>
  );
}

/** The items of a map, page by page. */
function Items({ id, node }: { readonly id: string; readonly node: GraphNode }): JSX.Element {
  const [after, setAfter] = useState<readonly number[]>([-1]);
  const from = after.at(-1) ?? -1;
  const page = useResource(
    `items ${id} ${node.name} ${from}`,
    (signal) =>
      call(
        'listFlowItems',
        { params: { id }, query: { step: node.name, after: from, limit: pageItems } },
        signal,
      ),
    { ...(node.status === 'running' && { everyMs: 3_000 }) },
  );
  const data = page.data.value;
  return (
    <div class="sect items-sect">
      <h3>
        Items
        <span class="right">
          {after.length > 1 && (
            <Button
              small
              look="ghost"
              icon="chevronLeft"
              label="Previous items"
              onClick={() => setAfter(after.slice(0, -1))}
            />
          )}
          {data?.nextAfter !== undefined && (
            <Button
              small
              look="ghost"
              icon="chevronRight"
              label="Next items"
              onClick={() => setAfter([...after, data.nextAfter ?? -1])}
            />
          )}
        </span>
      </h3>
      <LoadState of={page} rows={4} />
      {data !== undefined && data.items.length > 0 && (
        <table class="items">
          <thead>
            <tr>
              <th>Item</th>
              <th>State</th>
              <th>About</th>
            </tr>
          </thead>
          <tbody>
            {data.items.map((item) => (
              <tr key={item.index}>
                <td class="tnum">{formatNumber(item.index)}</td>
                <td>
                  <Status tone={item.status} />
                </td>
                <td class="sec" title={item.failure?.message}>
                  <bdi>
                    {item.failure?.message ??
                      item.worker ??
                      (item.attempts !== undefined && item.attempts > 1
                        ? `${item.attempts} attempts`
                        : '')}
                  </bdi>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {data !== undefined && data.items.length === 0 && <p class="dim">None yet</p>}
    </div>
  );
}
