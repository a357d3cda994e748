import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { Panel } from '../../components/panel.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Ago } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { href, instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { now } from '../../state/clock.ts';
import { formatCount, formatDuration } from '../../words/format.ts';
import { statusWords, storedStatuses, toneOf } from '../../words/status.ts';

/** The flows with their counts, and the newest runs. */
export function Flows(): JSX.Element {
  const definitions = useResource(
    'flow definitions',
    (signal) => call('listDefinitions', {}, signal),
    { everyMs: 5_000 },
  );
  const runs = useResource(
    'flow runs',
    (signal) => call('listInstances', { query: { kind: 'flow', limit: 50 } }, signal),
    { everyMs: 2_000 },
  );
  const flows = (definitions.data.value?.items ?? []).filter(({ kind }) => kind === 'flow');
  const error = definitions.error.value ?? runs.error.value;
  const items = runs.data.value?.items;
  return (
    <>
      <TopBar title="Flows" />
      <div class="wrap">
        {error !== undefined && <Problem error={error} retry={() => runs.reload()} />}
        {items === undefined && error === undefined && <Loading />}
        {items?.length === 0 && (
          <Empty icon="flow" title="No flow has run yet.">
            A flow is a graph of steps. Start one from your code:
            <pre class="code">{`await perdure.client.runFlow(importCatalogue, { shop: 'north' });`}</pre>
          </Empty>
        )}
        {flows.length > 0 && (
          <Panel title="Flows">
            <div class="table-scroll">
              <table>
                <thead>
                  <tr>
                    <th>Flow</th>
                    {storedStatuses
                      .filter((status) =>
                        flows.some(({ counts }) => (counts[status]?.count ?? 0) > 0),
                      )
                      .map((status) => (
                        <th key={status} class="num">
                          {statusWords[status].word}
                        </th>
                      ))}
                  </tr>
                </thead>
                <tbody>
                  {flows.map(({ name, counts }) => (
                    <tr key={name}>
                      <td>
                        <a
                          class="link"
                          href={href(
                            ['instances'],
                            new URLSearchParams([
                              ['kind', 'flow'],
                              ['name', name],
                            ]),
                          )}
                        >
                          <bdi>{name}</bdi>
                        </a>
                      </td>
                      {storedStatuses
                        .filter((status) =>
                          flows.some((flow) => (flow.counts[status]?.count ?? 0) > 0),
                        )
                        .map((status) => {
                          const count = counts[status];
                          return (
                            <td key={status} class="num">
                              {count === undefined || count.count === 0 ? '' : formatCount(count)}
                            </td>
                          );
                        })}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Panel>
        )}
        {items !== undefined && items.length > 0 && (
          <Panel
            title="Newest runs"
            class="gap-top"
            right={
              <a class="link" href={href(['instances'], 'kind=flow')}>
                All runs
              </a>
            }
          >
            <div class="table-scroll">
              <table>
                <thead>
                  <tr>
                    <th>Run</th>
                    <th>Flow</th>
                    <th>Status</th>
                    <th class="num">Duration</th>
                    <th class="num hide-s">Created</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((run) => (
                    <tr key={run.id}>
                      <td>
                        <a class="link" href={instanceHref(run.id)}>
                          <bdi class="mono">{run.id}</bdi>
                        </a>
                      </td>
                      <td>
                        <bdi>{run.name}</bdi>
                      </td>
                      <td>
                        <Status tone={toneOf(run)} />
                      </td>
                      <td class="num">
                        {run.startedAt === undefined
                          ? ''
                          : formatDuration((run.endedAt ?? now.value) - run.startedAt)}
                      </td>
                      <td class="num hide-s">
                        <Ago at={run.createdAt} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Panel>
        )}
      </div>
    </>
  );
}
