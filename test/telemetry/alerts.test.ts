import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const folder = new URL('../../grafana/', import.meta.url);
const rules = fileURLToPath(new URL('alerts.yaml', folder));
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

interface Case {
  /** Values per minute, in the notation of promtool. */
  readonly series: Readonly<Record<string, string>>;
  /** Minutes until the alert fires. The minute before, it does not. */
  readonly firesAfter: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly severity?: 'critical';
  readonly summary: string;
}

/** What each alert fires for. The first evaluation is at minute 0. */
const cases: Readonly<Record<string, Case>> = {
  PerdureBlockedInstances: {
    series: { perdure_blocked_instances: '3x40' },
    firesAfter: 5,
    severity: 'critical',
    summary: '3 instances are blocked',
  },
  PerdureWorkWithoutWorker: {
    series: { 'perdure_unclaimed_work_seconds{kind="task",name="fax"}': '61x40' },
    firesAfter: 2,
    labels: { kind: 'task', name: 'fax' },
    severity: 'critical',
    summary: 'no live worker has task fax',
  },
  PerdureNoLiveWorker: {
    series: { 'perdure_workers{status="live"}': '0x40' },
    firesAfter: 2,
    severity: 'critical',
    summary: 'no worker is live',
  },
  PerdureStaleWorker: {
    series: { 'perdure_workers{status="stale"}': '2x40' },
    firesAfter: 5,
    summary: '2 workers have stopped without a shutdown',
  },
  PerdureQueueAge: {
    series: { 'perdure_queue_oldest_ready_seconds{queue="work"}': '400x40' },
    firesAfter: 5,
    labels: { queue: 'work' },
    summary: 'work of the queue work waits for 6m 40s',
  },
  PerdureScheduleToStart: {
    series: {
      'perdure_schedule_to_start_seconds_bucket{le="30"}': '0x40',
      'perdure_schedule_to_start_seconds_bucket{le="120"}': '0+100x40',
      'perdure_schedule_to_start_seconds_bucket{le="+Inf"}': '0+100x40',
    },
    // The first rate needs two values.
    firesAfter: 11,
    summary: 'attempts start 1m 55s after they are due (p95)',
  },
  PerdureFailureRatio: {
    series: {
      'perdure_instances_ended_total{name="order",status="failed"}': '0+2x40',
      'perdure_instances_ended_total{name="order",status="completed"}': '0+8x40',
    },
    firesAfter: 16,
    labels: { name: 'order' },
    summary: 'more than 10 % of order fail',
  },
  PerdureLeakedHandlers: {
    series: { perdure_leaked_handlers: '1x40' },
    firesAfter: 5,
    summary: 'handlers still run after their grace',
  },
  PerdureStoreErrors: {
    series: { 'perdure_store_errors_total{operation="ackTurns"}': '0+60x40' },
    firesAfter: 6,
    labels: { operation: 'ackTurns' },
    severity: 'critical',
    summary: 'the store fails ackTurns',
  },
  PerdureScheduleLate: {
    series: {
      'perdure_schedule_lateness_seconds_bucket{le="30"}': '0x40',
      'perdure_schedule_lateness_seconds_bucket{le="120"}': '0+10x40',
      'perdure_schedule_lateness_seconds_bucket{le="+Inf"}': '0+10x40',
    },
    firesAfter: 16,
    summary: 'ticks start 1m 55s late (p95)',
  },
  PerdureRetentionStopped: {
    series: { perdure_retention_last_sweep_timestamp_seconds: '60x1560' },
    firesAfter: 1_502,
    summary: 'the last retention sweep ended more than a day ago',
  },
};

/** Values of a store without a problem. No alert may fire for them. */
const healthy: Case['series'] = {
  perdure_blocked_instances: '0x60',
  'perdure_unclaimed_work_seconds{kind="task",name="fax"}': '30x60',
  'perdure_workers{status="live"}': '1x60',
  'perdure_workers{status="stale"}': '0x60',
  'perdure_queue_oldest_ready_seconds{queue="work"}': '30x60',
  'perdure_schedule_to_start_seconds_bucket{le="30"}': '0+100x60',
  'perdure_schedule_to_start_seconds_bucket{le="+Inf"}': '0+100x60',
  'perdure_instances_ended_total{name="order",status="failed"}': '0+5x60',
  'perdure_instances_ended_total{name="order",status="completed"}': '0+95x60',
  perdure_leaked_handlers: '0x60',
  perdure_handlers_leaked_total: '7x60',
  'perdure_store_errors_total{operation="ackTurns"}': '0 1x60',
  'perdure_schedule_lateness_seconds_bucket{le="30"}': '0+10x60',
  'perdure_schedule_lateness_seconds_bucket{le="+Inf"}': '0+10x60',
  // A process without retention.
  perdure_retention_last_sweep_timestamp_seconds: '0x60',
};

/** Runs promtool on a file. JSON is YAML, too. */
function promtool(args: readonly string[], content: object): string {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-promtool-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, 'file.yaml');
  writeFileSync(file, JSON.stringify(content));
  const { status, stdout, stderr } = spawnSync('promtool', [...args, file], { encoding: 'utf8' });
  return status === 0 ? '' : `${stdout}${stderr}`;
}

function seriesOf(series: Case['series']) {
  return Object.entries(series).map(([name, values]) => ({ series: name, values }));
}

const text = readFileSync(rules, 'utf8');
const alerts = [...text.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);

/** The description of an alert, which has no values. */
function descriptionOf(alert: string): string | undefined {
  const [, block = ''] = text.split(`- alert: ${alert}\n`);
  return /^ +description: (.*)$/m.exec(block.split('- alert:')[0] ?? '')?.[1];
}

it('each alert has a case', () => {
  expect(Object.keys(cases).toSorted()).toEqual(alerts.toSorted());
});

it.skipIf(!hasPromtool)(
  'each alert fires for its problem, and none without (needs promtool)',
  () => {
    const tests = Object.entries(cases).map(([alertname, one]) => {
      const { series, firesAfter, labels, severity = 'warning', summary } = one;
      const description = descriptionOf(alertname);
      const alert = {
        exp_labels: { ...labels, severity },
        exp_annotations: { summary, ...(description !== undefined && { description }) },
      };
      return {
        name: alertname,
        interval: '1m',
        input_series: seriesOf(series),
        alert_rule_test: [
          { eval_time: `${firesAfter - 1}m`, alertname, exp_alerts: [] },
          { eval_time: `${firesAfter}m`, alertname, exp_alerts: [alert] },
        ],
      };
    });
    const quiet = {
      name: 'healthy',
      interval: '1m',
      input_series: seriesOf(healthy),
      alert_rule_test: alerts.map((alertname) => ({ eval_time: '50m', alertname, exp_alerts: [] })),
    };
    const file = { rule_files: [rules], evaluation_interval: '1m', tests: [...tests, quiet] };
    expect(promtool(['test', 'rules'], file)).toBe('');
  },
);

it.skipIf(!hasPromtool)('promtool parses each query of the dashboard (needs promtool)', () => {
  const { panels } = JSON.parse(readFileSync(new URL('perdure.json', folder), 'utf8')) as {
    readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const group = {
    name: 'queries',
    // A variable of Grafana.
    rules: queries.map((expr, index) => ({
      record: `query_${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    })),
  };
  expect(queries.length).toBeGreaterThan(20);
  expect(promtool(['check', 'rules'], { groups: [group] })).toBe('');
});
