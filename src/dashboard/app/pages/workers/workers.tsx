import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { Button } from '../../components/button.tsx';
import { Icon } from '../../components/icon.tsx';
import { Meter, Panel } from '../../components/panel.tsx';
import { Empty, LoadState } from '../../components/states.tsx';
import { SidePanel } from '../../components/side-panel.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Ago, Moment } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { href, query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatAge, formatNumber, plural } from '../../words/format.ts';

const columns: readonly TableColumn[] = [
  { title: 'Worker', width: '22%' },
  { title: 'State', width: '14%', small: 'side' },
  { title: 'Slots', small: 'hidden' },
  { title: 'In use', width: '10%', isNumber: true },
  { title: 'Host', width: '20%', small: 'hidden' },
  { title: 'Build', width: '12%' },
  { title: 'Seen', width: '9%', isNumber: true },
];

type Worker = ResponseBody<'listWorkers'>['items'][number];

/** The workers of the store, and work that none of them can run. */
export function Workers(): JSX.Element {
  const workers = useResource('workers', (signal) => call('listWorkers', {}, signal), {
    everyMs: 2_000,
  });
  const unclaimed = useResource('unclaimed', (signal) => call('listUnclaimedWork', {}, signal), {
    everyMs: 5_000,
  });
  const items = workers.data.value?.items;
  const chosen = items?.find(({ id }) => id === query.value.get('worker'));
  const live = items?.filter(({ status }) => status === 'live').length ?? 0;
  return (
    <>
      <TopBar title="Workers" />
      <div class={chosen === undefined ? '' : 'split'}>
        <div class="wrap">
          <LoadState of={workers} />
          {items?.length === 0 && (
            <Empty icon="worker" title="No worker has been seen.">
              Work waits in the store until a worker with its code starts:
              <pre class="code">{`await perdure.startWorker({ orchestrations: [fulfilOrder], activities: [chargeCard] });`}</pre>
            </Empty>
          )}
          {(unclaimed.data.value?.items ?? []).length > 0 && (
            <Unclaimed items={unclaimed.data.value?.items ?? []} />
          )}
          {items !== undefined && items.length > 0 && (
            <Panel
              title="Workers"
              right={<span>{`${live} alive, ${items.length - live} stale`}</span>}
            >
              <Table label="Workers" columns={columns}>
                {items.map((worker) => (
                  <WorkerRow key={worker.id} worker={worker} isChosen={worker === chosen} />
                ))}
              </Table>
            </Panel>
          )}
        </div>
        {chosen !== undefined && <WorkerPanel key={chosen.id} worker={chosen} />}
      </div>
    </>
  );
}

/** The state of a worker, computed from the age of its last heartbeat. */
export function WorkerState({ worker }: { readonly worker: Worker }): JSX.Element {
  if (worker.status === 'stale')
    return <Status tone="failed" isProblem text={worker.diedAt === undefined ? 'Stale' : 'Died'} />;
  if (worker.leaked > 0)
    return <Status tone="retrying" isProblem text={`${worker.leaked} leaked`} />;
  return <Status tone="completed" text="Alive" />;
}

function WorkerRow({
  worker,
  isChosen,
}: {
  readonly worker: Worker;
  readonly isChosen: boolean;
}): JSX.Element {
  const { slots } = worker;
  const all = slots.activities + slots.orchestrations;
  return (
    <Row
      isSelected={isChosen}
      cells={[
        <button
          type="button"
          class="plain-link link cut"
          title={worker.name}
          aria-expanded={isChosen}
          onClick={() => setQuery({ worker: worker.id }, { replace: true })}
        >
          <bdi>{worker.name}</bdi>
        </button>,
        <WorkerState worker={worker} />,
        <Meter value={all === 0 ? 0 : (slots.inUse / all) * 100} />,
        `${formatNumber(slots.inUse)} / ${formatNumber(all)}`,
        <bdi class="sec" title={worker.host}>
          {worker.host}
        </bdi>,
        <code title={worker.buildId}>
          <bdi>{worker.buildId}</bdi>
        </code>,
        <Ago at={worker.lastSeenAt} suffix="" />,
      ]}
    />
  );
}

function Unclaimed({
  items,
}: {
  readonly items: ResponseBody<'listUnclaimedWork'>['items'];
}): JSX.Element {
  return (
    <Panel title="Work that no live worker can run" class="gap-bottom">
      {items.map(({ kind, name, version, dueForMs }) => (
        <div key={`${kind} ${name} ${version ?? ''}`} class="att" data-st="failed">
          <Icon name="warning" />
          <span class="what">
            <bdi>{name}</bdi>
            {version !== undefined && <span class="dim"> v{version}</span>}
          </span>
          <span class="det">No live worker has this {kind}. Start a worker that registers it.</span>
          <span class="since">{formatAge(dueForMs)}</span>
          <span class="act">
            <a class="link" href={href(['instances'], new URLSearchParams({ name }))}>
              Show
            </a>
          </span>
        </div>
      ))}
    </Panel>
  );
}

function WorkerPanel({ worker }: { readonly worker: Worker }): JSX.Element {
  const [all, setAll] = useState(false);
  const lists = [
    ['Orchestrations', worker.orchestrations.map(({ name, version }) => `${name} v${version}`)],
    ['Activities', worker.activities],
    ['Tasks', worker.tasks],
  ] as const;
  return (
    <SidePanel
      label={`Worker ${worker.name}`}
      title={worker.name}
      status={<WorkerState worker={worker} />}
      onClose={() => setQuery({ worker: undefined }, { replace: true })}
    >
      <div class="sect">
        <dl class="kv">
          <dt>Host</dt>
          <dd>
            <bdi>{worker.host}</bdi>, process {worker.pid}
          </dd>
          <dt>Build</dt>
          <dd>
            <code>
              <bdi>{worker.buildId}</bdi>
            </code>
          </dd>
          <dt>Started</dt>
          <dd>
            <Moment at={worker.startedAt} />
          </dd>
          <dt>Last seen</dt>
          <dd>
            <Ago at={worker.lastSeenAt} />
          </dd>
          {worker.diedAt !== undefined && (
            <>
              <dt>Died</dt>
              <dd>
                <Ago at={worker.diedAt} />. Its work was taken over.
              </dd>
            </>
          )}
          <dt>Slots</dt>
          <dd>
            {worker.slots.activities} for activities and tasks, {worker.slots.orchestrations} for
            orchestrations, {worker.slots.inUse} in use
          </dd>
          {worker.leaked > 0 && (
            <>
              <dt>Leaked</dt>
              <dd>{plural(worker.leaked, 'handler')} ran past the grace</dd>
            </>
          )}
        </dl>
      </div>
      {lists.map(([title, names]) => (
        <div key={title} class="sect">
          <h3>
            {title} <span class="right">{names.length}</span>
          </h3>
          {names.length === 0 && <p class="dim">None</p>}
          <ul class="names">
            {(all ? names : names.slice(0, 12)).map((name) => (
              <li key={name}>
                <bdi>{name}</bdi>
              </li>
            ))}
          </ul>
          {!all && names.length > 12 && (
            <Button small look="ghost" onClick={() => setAll(true)}>
              Show all
            </Button>
          )}
        </div>
      ))}
      {worker.definitionsOmitted === true && (
        <p class="sect dim">It has more definitions than the registry stores.</p>
      )}
    </SidePanel>
  );
}
