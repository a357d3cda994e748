import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Panel } from '../../components/panel.tsx';
import { Empty, LoadState } from '../../components/states.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { serverNow } from '../../state/clock.ts';
import { query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';
import { Plot, type Line } from './plot.tsx';
import { readSeries, summarise, windows } from './series-data.ts';
import { WindowChoice } from './window-choice.tsx';

/** The minute series as charts. */
export function Metrics(): JSX.Element {
  const window = windows.find((one) => one === query.value.get('window')) ?? '1h';
  const name = query.value.get('name') ?? '';
  const definitions = useResource('definitions', (signal) => call('listDefinitions', {}, signal));
  const names = useMemo(
    () => [...new Set((definitions.data.value?.items ?? []).map((one) => one.name))].sort(),
    [definitions.data.value],
  );
  const series = useResource(
    `series ${window} ${name}`,
    (signal) => readSeries(window, serverNow(), name === '' ? undefined : name, signal),
    { everyMs: 15_000 },
  );
  const data = series.data.value;
  const summary = useMemo(() => (data === undefined ? undefined : summarise(data)), [data]);
  return (
    <>
      <TopBar title="Metrics">
        <label class="inline-field only-l">
          <span class="sr">Definition</span>
          <select
            class="input"
            value={name}
            onChange={(event) =>
              setQuery(
                { name: event.currentTarget.value === '' ? undefined : event.currentTarget.value },
                { replace: true },
              )
            }
          >
            <option value="">All definitions</option>
            {names.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <WindowChoice value={window} />
      </TopBar>
      <div class="wrap">
        <LoadState of={series} />
        {data?.minutes.length === 0 && (
          <Empty icon="chart" title="Nothing was recorded in this window.">
            Workers write one row a minute with starts, ends, durations and queue depths.
          </Empty>
        )}
        {summary !== undefined && data !== undefined && data.minutes.length > 0 && (
          <div class="two metric-grid">
            <Graph
              title="Started and ended"
              unit="per minute"
              times={summary.times}
              format={rate}
              lines={[
                { title: 'Ended', values: summary.ends, color: '--viz-1' },
                { title: 'Started', values: summary.starts, color: '--viz-2', dashed: true },
              ]}
            />
            <Graph
              title="Failed"
              unit="per minute"
              times={summary.times}
              format={rate}
              lines={[{ title: 'Failed', values: summary.failed, color: '--viz-3' }]}
            />
            <Graph
              title="Duration of instances"
              times={summary.times}
              format={formatDuration}
              lines={[
                { title: 'p95', values: summary.durationP95, color: '--viz-1' },
                { title: 'p50', values: summary.durationP50, color: '--viz-2', dashed: true },
              ]}
            />
            <Graph
              title="Duration of attempts"
              times={summary.times}
              format={formatDuration}
              lines={[
                { title: 'p95', values: summary.attemptP95, color: '--viz-1' },
                { title: 'p50', values: summary.attemptP50, color: '--viz-2', dashed: true },
              ]}
            />
            <Graph
              title="Schedule to start"
              times={summary.times}
              format={formatDuration}
              lines={[
                { title: 'p95', values: summary.waitP95, color: '--viz-1' },
                { title: 'p50', values: summary.waitP50, color: '--viz-2', dashed: true },
              ]}
            />
            {name === '' && (
              <>
                <Graph
                  title="Waiting work"
                  times={summary.times}
                  format={formatNumber}
                  lines={[{ title: 'Ready', values: summary.depth, color: '--viz-1' }]}
                />
                <Graph
                  title="Age of the oldest work"
                  times={summary.times}
                  format={formatDuration}
                  lines={[{ title: 'Oldest', values: summary.oldestMs, color: '--viz-1' }]}
                />
              </>
            )}
          </div>
        )}
      </div>
    </>
  );
}

function rate(value: number): string {
  return value >= 10 || value === 0 ? formatNumber(Math.round(value)) : value.toFixed(1);
}

function Graph({
  title,
  unit,
  times,
  lines,
  format,
}: {
  readonly title: string;
  readonly unit?: string;
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
}): JSX.Element {
  return (
    <Panel
      title={
        <>
          {title} {unit !== undefined && <span class="dim">{unit}</span>}
        </>
      }
      right={
        lines.length > 1 &&
        lines.map((line) => (
          <span
            key={line.title}
            class={`lg ${line.dashed === true ? 'dashed' : ''}`}
            style={{ '--k': `var(${line.color})` }}
          >
            {line.title}
          </span>
        ))
      }
    >
      <Plot
        times={times}
        lines={lines}
        format={format}
        label={`${title}: ${lines.map((line) => line.title).join(' and ')}`}
      />
    </Panel>
  );
}
