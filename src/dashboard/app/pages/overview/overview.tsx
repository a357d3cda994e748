import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Icon } from '../../components/icon.tsx';
import { Meter, Panel, Segments } from '../../components/panel.tsx';
import { Spark } from '../../components/spark.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Ago } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { attention } from '../../state/attention.ts';
import { now, serverNow } from '../../state/clock.ts';
import { href, query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatAge, formatBytes, formatDuration, formatNumber } from '../../words/format.ts';
import { statusWords, type StoredStatus } from '../../words/status.ts';
import { WorkerState } from '../workers/workers.tsx';
import {
  readSeries,
  summarise,
  windows,
  type Summary,
  type Window,
} from '../metrics/series-data.ts';
import { Findings } from './findings.tsx';

const shown = 5;

/** What needs attention, then how the system does. */
export function Overview(): JSX.Element {
  const window = windows.find((one) => one === query.value.get('window')) ?? '1h';
  const findings = useResource('attention', (signal) => call('getAttention', {}, signal), {
    everyMs: 3_000,
  });
  const system = useResource('system', (signal) => call('systemMetrics', {}, signal), {
    everyMs: 3_000,
  });
  const series = useResource(
    `series ${window}`,
    (signal) => readSeries(window, serverNow(), undefined, signal),
    {
      everyMs: 15_000,
    },
  );
  const data = findings.data.value;
  useEffect(() => {
    if (data !== undefined) attention.value = data.findings.length;
  }, [data]);
  const totals = system.data.value;
  const isEmpty =
    totals !== undefined && Object.values(totals.instances).every((count) => count === 0);
  return (
    <>
      <TopBar title="Overview">
        <Segments
          label="Window"
          value={window}
          options={[
            ['1h', '1 h'],
            ['6h', '6 h'],
            ['24h', '24 h'],
            ['7d', '7 d'],
          ]}
          onChange={(value) =>
            setQuery({ window: value === '1h' ? undefined : value }, { replace: true })
          }
        />
      </TopBar>
      <div class="wrap">
        {findings.error.value !== undefined && (
          <Problem error={findings.error.value} retry={() => findings.reload()} />
        )}
        <Panel
          title={
            <>
              Needs attention{' '}
              {data !== undefined && data.findings.length > 0 && (
                <span class="dim">{data.findings.length}</span>
              )}
            </>
          }
        >
          {data === undefined && findings.error.value === undefined && <Loading rows={3} />}
          {data?.findings.length === 0 && (
            <p class="panel-p all-well">
              <span data-st="completed">
                <Icon name="completed" class="ic" />
              </span>
              Nothing. No instance is blocked, none failed in the last hour, and every definition
              has a worker.
            </p>
          )}
          {data !== undefined && <Findings findings={data.findings} />}
        </Panel>
        {isEmpty && (
          <Empty title="This store has no instances yet.">
            Start one from your code, and it appears here while it runs.
          </Empty>
        )}
        {totals !== undefined && (
          <Counts totals={totals.instances} paused={totals.pausedInstances} />
        )}
        {series.data.value !== undefined && (
          <Charts
            summary={summarise(series.data.value)}
            storageBytes={totals?.storageBytes}
            reclaimableBytes={totals?.reclaimableBytes}
            window={window}
          />
        )}
        <div class="two">
          <OldestQueues />
          <SomeWorkers />
        </div>
      </div>
    </>
  );
}

function Counts({
  totals,
  paused,
}: {
  readonly totals: Readonly<Record<StoredStatus, number>>;
  readonly paused: number;
}): JSX.Element {
  const items: readonly (readonly [key: StoredStatus | 'paused', count: number, search: string])[] =
    [
      ['pending', totals.pending, 'status=pending'],
      ['running', totals.running, 'status=running'],
      ['canceling', totals.canceling, 'status=canceling'],
      ['paused', paused, 'paused=yes'],
      ['completed', totals.completed, 'status=completed'],
      ['failed', totals.failed, 'status=failed'],
      ['canceled', totals.canceled, 'status=canceled'],
      ['terminated', totals.terminated, 'status=terminated'],
    ];
  return (
    <nav class="counts" aria-label="Instances by status">
      {items.map(([key, count, search]) => (
        <a key={key} href={href(['instances'], search)}>
          <Status tone={key} />
          <span class="v">{formatNumber(count)}</span>
          <span class="d">
            {key === 'paused'
              ? 'of the active'
              : statusWords[key].word === 'Pending'
                ? 'not begun'
                : 'in the store'}
          </span>
        </a>
      ))}
    </nav>
  );
}

function Charts({
  summary,
  storageBytes,
  reclaimableBytes,
  window,
}: {
  readonly summary: Summary;
  readonly storageBytes: number | undefined;
  readonly reclaimableBytes: number | undefined;
  readonly window: Window;
}): JSX.Element {
  return (
    <div class="charts">
      <Chart
        title="Ended"
        big={formatRate(summary.endsPerSecond)}
        small="per second"
        label={`Instances that ended per minute, last ${window}`}
        values={summary.ends}
      />
      <Chart
        title="Duration"
        big={summary.p95Ms === undefined ? 'none' : formatDuration(summary.p95Ms)}
        small="p95 of instances"
        label={`Duration of instances, last ${window}`}
        values={summary.durationP95}
        second={summary.durationP50}
        legend
      />
      <Chart
        title="Failed"
        big={formatNumber(summary.failedCount)}
        small={`of ${formatNumber(summary.endCount)} that ended`}
        label={`Instances that failed per minute, last ${window}`}
        values={summary.failed}
      />
      <section class="panel chart">
        <div class="t">
          <b>Storage</b>
        </div>
        <div class="big">
          {storageBytes === undefined ? '' : formatBytes(storageBytes)}
          <small>
            {reclaimableBytes === undefined
              ? ''
              : `${formatBytes(reclaimableBytes)} can be reclaimed`}
          </small>
        </div>
        <Meter
          value={
            storageBytes === undefined || storageBytes === 0
              ? 0
              : ((reclaimableBytes ?? 0) / storageBytes) * 100
          }
        />
      </section>
    </div>
  );
}

function Chart({
  title,
  big,
  small,
  label,
  values,
  second,
  legend = false,
}: {
  readonly title: string;
  readonly big: string;
  readonly small: string;
  readonly label: string;
  readonly values: readonly (number | undefined)[];
  readonly second?: readonly (number | undefined)[];
  readonly legend?: boolean;
}): JSX.Element {
  return (
    <section class="panel chart">
      <div class="t">
        <b>{title}</b>
        {legend && (
          <span>
            <span class="lg" style={{ '--k': 'var(--viz-1)' }}>
              p95
            </span>
            <span class="lg dashed" style={{ '--k': 'var(--viz-2)' }}>
              p50
            </span>
          </span>
        )}
      </div>
      <div class="big">
        {big} <small>{small}</small>
      </div>
      <Spark label={label} values={values} {...(second !== undefined && { second })} />
    </section>
  );
}

function formatRate(perSecond: number): string {
  return perSecond >= 10
    ? formatNumber(Math.round(perSecond))
    : perSecond.toFixed(perSecond >= 1 ? 1 : 2);
}

function OldestQueues(): JSX.Element {
  const queues = useResource('queues', (signal) => call('listQueues', {}, signal), {
    everyMs: 3_000,
  });
  const items = [...(queues.data.value?.items ?? [])]
    .filter(({ ready, claimed }) => ready + claimed > 0)
    .sort((a, b) => (a.oldestReadyAt ?? Infinity) - (b.oldestReadyAt ?? Infinity))
    .slice(0, shown);
  return (
    <Panel
      title="Queues by age"
      right={
        <a class="link" href={href(['queues'])}>
          All
        </a>
      }
    >
      {queues.error.value !== undefined && <Problem error={queues.error.value} />}
      {items.length === 0 && <p class="panel-p dim">Nothing waits.</p>}
      {items.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Definition</th>
              <th class="num">Waiting</th>
              <th class="num">Oldest</th>
              <th class="num">At work</th>
            </tr>
          </thead>
          <tbody>
            {items.map(({ kind, name, ready, oldestReadyAt, claimed }) => (
              <tr key={`${kind} ${name}`}>
                <td>
                  <bdi>{name}</bdi>
                </td>
                <td class="num">{formatNumber(ready)}</td>
                <td class="num">
                  {oldestReadyAt === null ? '' : formatAge(now.value - oldestReadyAt)}
                </td>
                <td class="num">{formatNumber(claimed)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function SomeWorkers(): JSX.Element {
  const workers = useResource('workers', (signal) => call('listWorkers', {}, signal), {
    everyMs: 3_000,
  });
  const items = workers.data.value?.items ?? [];
  const live = items.filter(({ status }) => status === 'live').length;
  return (
    <Panel
      title="Workers"
      right={
        <>
          {items.length > 0 && <span>{`${live} alive, ${items.length - live} stale`}</span>}
          <a class="link" href={href(['workers'])}>
            All
          </a>
        </>
      }
    >
      {workers.error.value !== undefined && <Problem error={workers.error.value} />}
      {workers.data.value !== undefined && items.length === 0 && (
        <p class="panel-p dim">No worker has been seen.</p>
      )}
      {items.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Worker</th>
              <th>State</th>
              <th class="num">Slots</th>
              <th class="hide-s">Build</th>
              <th class="num">Seen</th>
            </tr>
          </thead>
          <tbody>
            {items.slice(0, shown).map((worker) => (
              <tr key={worker.id}>
                <td>
                  <bdi>{worker.name}</bdi>
                </td>
                <td>
                  <WorkerState worker={worker} />
                </td>
                <td class="num">{`${worker.slots.inUse} / ${worker.slots.activities + worker.slots.orchestrations}`}</td>
                <td class="hide-s">
                  <code>
                    <bdi>{worker.buildId}</bdi>
                  </code>
                </td>
                <td class="num">
                  <Ago at={worker.lastSeenAt} suffix="" />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
