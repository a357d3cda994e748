import type { WorkerInfo } from '../../../client/reading/workers.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, formatAge, formatDuration } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { writeTable } from '../../text/table.ts';

/** Lists the workers of the store, and work that none of them can run. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout, stderr } = terminal;
  const { client } = await call.open();
  const [items, unclaimed] = await Promise.all([client.workers(), client.unclaimedWork()]);
  if (json) {
    writeJson(stdout, { items, unclaimed });
    return 0;
  }
  if (items.length === 0) stderr.write('No workers. Start one with `perdure worker <file>`.\n');
  else {
    const nowMs = Date.now();
    writeTable(stdout, items, [
      { title: 'NAME', value: ({ name }: WorkerInfo) => name, min: 12 },
      {
        title: 'STATUS',
        value: ({ status }) => status,
        style: ({ status }) => statusStyle(status),
      },
      { title: 'HOST', value: ({ host, pid }) => `${host}:${pid}`, min: 8, drop: 3 },
      {
        title: 'SLOTS',
        value: ({ slots }) => `${slots.inUse} of ${slots.activities}`,
        align: 'right',
        drop: 1,
      },
      {
        title: 'SEEN',
        value: ({ ageMs }) => `${formatDuration(ageMs).split(' ')[0] ?? ''} ago`,
        align: 'right',
        drop: 2,
      },
      {
        title: 'UP',
        value: ({ startedAt }) => formatAge(startedAt, nowMs).replace(' ago', ''),
        align: 'right',
        drop: 4,
      },
      { title: 'BUILD', value: ({ buildId }) => buildId, min: 6, drop: 6 },
      { title: 'DEFINITIONS', value: definitionsOf, min: 10, drop: 5 },
    ]);
  }
  for (const { kind, name, dueForMs } of unclaimed) {
    stderr.write(
      `${stderr.style('yellow', 'warning:')} No live worker has ${kind} ${clean(JSON.stringify(name))}; its work has been due for ${formatDuration(dueForMs)}.\n`,
    );
  }
  return 0;
}

function definitionsOf({ orchestrations, activities, tasks }: WorkerInfo): string {
  return [...orchestrations.map(({ name }) => name), ...activities, ...tasks].join(' ');
}
