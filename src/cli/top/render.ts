import type { Output } from '../command.ts';
import {
  clean,
  cut,
  formatAge,
  formatBytes,
  formatCount,
  formatDuration,
  formatTime,
} from '../text/format.ts';
import { statusStyle } from '../text/status-style.ts';
import { writeTable } from '../text/table.ts';
import type { Percentiles, TopSnapshot } from './snapshot.ts';

const blocks = '▁▂▃▄▅▆▇█';
const styles = { problem: 'red', warning: 'yellow', note: 'dim' } as const;

/** Returns the lines of a snapshot. Each fits the columns of the output. */
export function renderSnapshot(snapshot: TopSnapshot, output: Output): readonly string[] {
  let text = '';
  const page: Output = {
    isTTY: output.isTTY,
    colour: output.colour,
    columns: output.columns,
    rows: output.rows,
    write: (part) => void (text += part),
    style: (style, part) => output.style(style, part),
  };
  const line = (content = '') => page.write(`${cut(clean(content), page.columns)}\n`);
  const heading = (content: string) =>
    page.write(`\n${page.style('bold', cut(content, page.columns))}\n`);
  line(`${snapshot.target}  ${formatTime(snapshot.at)}`);
  line(countsLine(snapshot));
  for (const one of throughputLines(snapshot)) line(one);
  for (const one of latencyLines(snapshot)) line(one);
  writeFindings(snapshot, page, heading);
  writeQueues(snapshot, page, heading);
  writeWorkers(snapshot, page, heading);
  return text.replace(/\n$/, '').split('\n');
}

function countsLine({ instances, storageBytes }: TopSnapshot): string {
  const counts = Object.entries(instances).filter(
    ([status, count]) => count > 0 || status === 'running' || status === 'failed',
  );
  const shown = counts.map(([status, count]) => `${formatCount(count)} ${status}`);
  return [...shown, formatBytes(storageBytes)].join('  ');
}

function throughputLines({ rates, minutes }: TopSnapshot): readonly string[] {
  const ends = minutes.map((minute) => minute.ends);
  const most = Math.max(1, ...ends);
  const spark = ends
    .map((count) => blocks[Math.ceil((count / most) * (blocks.length - 1))] ?? '')
    .join('');
  const perSecond = (rate: number) => `${rate >= 10 ? Math.round(rate) : rate.toFixed(1)}/s`;
  const now =
    rates === undefined
      ? ''
      : `  now ${perSecond(rates.starts)} started, ${perSecond(rates.ends)} ended`;
  return [`ended per minute  ${spark}  max ${formatCount(Math.max(0, ...ends))}${now}`];
}

function latencyLines({ latency }: TopSnapshot): readonly string[] {
  const one = (name: string, { count, p50Ms = 0, p95Ms = 0 }: Percentiles) =>
    count === 0
      ? `${name} -`
      : `${name} p50 ${formatDuration(p50Ms)}, p95 ${formatDuration(p95Ms)}`;
  return [
    `last 5 minutes  ${one('instances', latency.instances)}  ${one('attempts', latency.attempts)}  ${one('waits', latency.waits)}`,
  ];
}

function writeFindings(
  { findings }: TopSnapshot,
  page: Output,
  heading: (text: string) => void,
): void {
  if (findings.length === 0) return;
  heading(`Needs attention (${findings.length})`);
  for (const { level, sentence } of findings) {
    const text = cut(clean(sentence), page.columns - level.length - 2);
    page.write(`${page.style(styles[level], level)}  ${text}\n`);
  }
}

function writeQueues(
  { queues, at }: TopSnapshot,
  page: Output,
  heading: (text: string) => void,
): void {
  heading(`Queues (${queues.length})`);
  if (queues.length === 0) return;
  writeTable(page, queues, [
    { title: 'NAME', value: ({ name }) => name, min: 8 },
    { title: 'KIND', value: ({ kind }) => kind, drop: 3 },
    { title: 'READY', value: ({ ready }) => formatCount(ready), align: 'right' },
    { title: 'RUNNING', value: ({ claimed }) => formatCount(claimed), align: 'right', drop: 1 },
    { title: 'DELAYED', value: ({ delayed }) => formatCount(delayed), align: 'right', drop: 2 },
    {
      title: 'OLDEST',
      value: ({ oldestReadyAt }) =>
        oldestReadyAt === null ? '' : formatAge(oldestReadyAt, at).replace(' ago', ''),
      align: 'right',
    },
    { title: 'WORKERS', value: ({ workers }) => formatCount(workers), align: 'right', drop: 4 },
    { title: 'STATE', value: ({ pause }) => (pause === undefined ? '' : 'paused'), drop: 5 },
  ]);
}

function writeWorkers(
  { workers }: TopSnapshot,
  page: Output,
  heading: (text: string) => void,
): void {
  const live = workers.filter(({ status }) => status === 'live').length;
  heading(`Workers (${formatCount(live)} live)`);
  if (workers.length === 0) return;
  writeTable(page, workers, [
    { title: 'NAME', value: ({ name }) => name, min: 8 },
    { title: 'STATUS', value: ({ status }) => status, style: ({ status }) => statusStyle(status) },
    {
      title: 'SLOTS',
      value: ({ slots }) => `${slots.inUse}/${slots.activities}`,
      align: 'right',
      drop: 1,
    },
    { title: 'SEEN', value: ({ ageMs }) => formatDuration(ageMs), align: 'right', drop: 2 },
    { title: 'HOST', value: ({ host }) => host, min: 6, drop: 4 },
    { title: 'PID', value: ({ pid }) => String(pid), align: 'right', drop: 3 },
    { title: 'LEAKED', value: ({ leaked }) => (leaked === 0 ? '' : String(leaked)), drop: 5 },
  ]);
}
