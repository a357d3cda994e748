import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Icon } from '../../components/icon.tsx';
import { Meter, Panel } from '../../components/panel.tsx';
import { Spark } from '../../components/spark.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Ago } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { attention } from '../../state/attention.ts';
import { now, serverNow } from '../../state/clock.ts';
import { href, query } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import {
  formatAge,
  formatBytes,
  formatClock,
  formatCount,
  formatDuration,
  formatNumber,
  plural,
} from '../../words/format.ts';
import type { StoredStatus } from '../../words/status.ts';
import { WorkerState } from '../workers/workers.tsx';
import {
  readSeries,
  summarise,
  windowMs,
  windows,
  windowWords,
  type Summary,
  type Window,
} from '../metrics/series-data.ts';
import { Findings } from './findings.tsx';
import { WindowChoice } from '../metrics/window-choice.tsx';

const shown = 5;
const oldMs = 60_000;
const queueColumns: readonly TableColumn[] = [
  { title: 'Definition', width: '34%' },
  { title: 'Waiting', width: '16%', isNumber: true },
  { title: '', small: 'hidden' },
  { title: 'Oldest', width: '18%', isNumber: true, small: 'side' },
  { title: 'At work', width: '16%', isNumber: true },
];
const workerColumns: readonly TableColumn[] = [
  { title: 'Worker', width: '24%' },
  { title: 'State', width: '19%', small: 'side' },
  { title: '', small: 'hidden' },
  { title: 'Slots', width: '15%', isNumber: true },
  { title: 'Build', width: '17%' },
  { title: 'Seen', width: '11%', isNumber: true },
];

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
        <WindowChoice value={window} />
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
            Start one from your code, and it appears here while it runs:
            <pre class="code">{`const handle = await perdure.client.start(fulfilOrder, { order: '48184' });`}</pre>
          </Empty>
        )}
        {totals !== undefined && !isEmpty && (
          <Counts
            totals={totals.instances}
            paused={totals.pausedInstances}
            blocked={data?.findings.find(({ kind }) => kind === 'blocked')?.count ?? 0}
            window={window}
          />
        )}
        {!isEmpty && series.data.value !== undefined && (
          <Charts
            summary={summarise(series.data.value)}
            storageBytes={totals?.storageBytes}
            reclaimableBytes={totals?.reclaimableBytes}
            storageNote={
              totals === undefined ? '' : plural(totals.finishedExecutions, 'finished execution')
            }
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

const endedStatuses = ['completed', 'failed', 'canceled', 'terminated'] as const;
const cap = 10_000;

function Counts({
  totals,
  paused,
  blocked,
  window,
}: {
  readonly totals: Readonly<Record<StoredStatus, number>>;
  readonly paused: number;
  readonly blocked: number;
  readonly window: Window;
}): JSX.Element {
  const recent = useResource(
    `ended in ${window}`,
    async (signal) => {
      // Rounded, so that the requests of one minute are the same.
      const endedFrom = Math.floor((serverNow() - windowMs[window]) / 60_000) * 60_000;
      const counts = await Promise.all(
        endedStatuses.map((status) =>
          call('countInstances', { query: { status: [status], endedFrom, cap } }, signal),
        ),
      );
      return new Map(endedStatuses.map((status, index) => [status, counts[index]]));
    },
    { everyMs: 15_000 },
  ).data.value;
  const inWindow = (status: (typeof endedStatuses)[number]): string => {
    const count = recent?.get(status);
    return count === undefined
      ? ''
      : `${count.count === 0 ? 'none' : formatCount(count)} in ${windowWords[window]}`;
  };
  const items: readonly (readonly [key: CountKey, count: number, search: string, note: string])[] =
    [
      ['pending', totals.pending, 'status=pending', 'not started'],
      ['running', totals.running, 'status=running', 'in progress'],
      ['canceling', totals.canceling, 'status=canceling', 'cleaning up'],
      ['blocked', blocked, 'blocked=yes', 'of the active'],
      ['paused', paused, 'paused=yes', 'of the active'],
      ['completed', totals.completed, 'status=completed', inWindow('completed')],
      ['failed', totals.failed, 'status=failed', inWindow('failed')],
      ['canceled', totals.canceled, 'status=canceled', inWindow('canceled')],
      ['terminated', totals.terminated, 'status=terminated', inWindow('terminated')],
    ];
  return (
    <nav class="counts" aria-label="Instances by status">
      {items.map(([key, count, search, note]) => (
        <a key={key} href={href(['instances'], search)}>
          <Status tone={key} />
          <span class="v">{formatNumber(count)}</span>
          <span class="d">{note}</span>
        </a>
      ))}
    </nav>
  );
}

type CountKey = StoredStatus | 'paused' | 'blocked';

function Charts({
  summary,
  storageBytes,
  reclaimableBytes,
  storageNote,
  window,
}: {
  readonly summary: Summary;
  readonly storageBytes: number | undefined;
  readonly reclaimableBytes: number | undefined;
  readonly storageNote: string;
  readonly window: Window;
}): JSX.Element {
  return (
    <div class="charts">
      <Chart
        title="Ended"
        big={summary.isEmpty ? 'Not yet' : formatRate(summary.endsPerSecond)}
        small={summary.isEmpty ? 'no full minute so far' : 'per second'}
        label={`Instances that ended per minute, last ${window}`}
        values={summary.ends}
        times={summary.times}
      />
      <Chart
        title="Schedule to start"
        big={summary.waitP95Ms === undefined ? 'Not yet' : formatDuration(summary.waitP95Ms)}
        small={summary.waitP95Ms === undefined ? 'no work was claimed' : 'p95 from due to claimed'}
        label={`Schedule-to-start latency, last ${window}`}
        values={summary.waitP95}
        times={summary.times}
        second={summary.waitP50}
        legend
      />
      <Chart
        title="Failed"
        big={formatNumber(summary.failedCount)}
        small={
          summary.isEmpty
            ? 'in the minutes counted so far'
            : `of ${formatNumber(summary.endCount)} that ended`
        }
        label={`Instances that failed per minute, last ${window}`}
        values={summary.failed}
        times={summary.times}
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
              : reclaimableBytes === 0
                ? 'nothing to reclaim'
                : `${formatBytes(reclaimableBytes)} can be reclaimed`}
          </small>
        </div>
        <div class="chart-meter">
          <Meter
            value={
              storageBytes === undefined || storageBytes === 0
                ? 0
                : ((reclaimableBytes ?? 0) / storageBytes) * 100
            }
          />
          <p class="dim">{storageNote}</p>
        </div>
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
  times,
  legend = false,
}: {
  readonly title: string;
  readonly big: string;
  readonly small: string;
  readonly label: string;
  readonly values: readonly (number | undefined)[];
  readonly second?: readonly (number | undefined)[];
  readonly times: readonly number[];
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
      <div class="ax" aria-hidden="true">
        {[0, 0.5, 1].map((share) => (
          <span key={share}>{axisText(times, share)}</span>
        ))}
      </div>
    </section>
  );
}

/** The time at a share of the axis. Windows of several days show the day. */
function axisText(times: readonly number[], share: number): string {
  const at = times[Math.round((times.length - 1) * share)];
  const spanMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
  return at === undefined ? '' : formatClock(at, { day: spanMs > windowMs['24h'] });
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
  const deepest = Math.max(1, ...items.map(({ ready }) => ready));
  return (
    <Panel
      title="Queues by age"
      right={
        <a class="link" href={href(['queues'])}>
          {`All ${queues.data.value === undefined ? '' : formatNumber(queues.data.value.items.length)}`}
          <span class="sr"> queues</span>
        </a>
      }
    >
      {queues.error.value !== undefined && <Problem error={queues.error.value} />}
      {queues.data.value !== undefined && items.length === 0 && (
        <p class="panel-p dim">Nothing waits. Work appears here from the moment it is queued.</p>
      )}
      {items.length > 0 && (
        <Table label="Queues by age" columns={queueColumns}>
          {items.map(({ kind, name, ready, oldestReadyAt, claimed }) => {
            const ageMs = oldestReadyAt === null ? 0 : now.value - oldestReadyAt;
            return (
              <Row
                key={`${kind} ${name}`}
                cells={[
                  <bdi title={name}>{name}</bdi>,
                  formatNumber(ready),
                  ready > 0 && (
                    <Meter
                      value={(ready / deepest) * 100}
                      {...(ageMs > oldMs && { tone: 'retrying' })}
                    />
                  ),
                  oldestReadyAt !== null &&
                    (ageMs > oldMs ? (
                      <Status tone="retrying" isProblem text={formatAge(ageMs)} />
                    ) : (
                      formatAge(ageMs)
                    )),
                  formatNumber(claimed),
                ]}
              />
            );
          })}
        </Table>
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
            {`All ${items.length === 0 ? '' : formatNumber(items.length)}`}
            <span class="sr"> workers</span>
          </a>
        </>
      }
    >
      {workers.error.value !== undefined && <Problem error={workers.error.value} />}
      {workers.data.value !== undefined && items.length === 0 && (
        <p class="panel-p dim">No worker yet. Instances stay pending until one starts.</p>
      )}
      {items.length > 0 && (
        <Table label="Workers" columns={workerColumns}>
          {items.slice(0, shown).map((worker) => {
            const all = worker.slots.activities + worker.slots.orchestrations;
            return (
              <Row
                key={worker.id}
                cells={[
                  <a
                    href={href(['workers'], new URLSearchParams({ worker: worker.id }))}
                    title={worker.name}
                  >
                    <bdi>{worker.name}</bdi>
                  </a>,
                  <WorkerState worker={worker} />,
                  <Meter value={all === 0 ? 0 : (worker.slots.inUse / all) * 100} />,
                  `${formatNumber(worker.slots.inUse)} / ${formatNumber(all)}`,
                  <code title={worker.buildId}>
                    <bdi>{worker.buildId}</bdi>
                  </code>,
                  <Ago at={worker.lastSeenAt} suffix="" />,
                ]}
              />
            );
          })}
        </Table>
      )}
    </Panel>
  );
}
