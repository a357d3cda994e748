import type { InstanceInfo } from '../../../client/reading/instance-info.ts';
import type { Call, ExitCode, Terminal } from '../../command.ts';
import { readFilter } from '../../filter-options.ts';
import { clean, countOf, formatAge, formatDuration } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { writeTable } from '../../text/table.ts';

const defaultLimit = 20;
const countCap = 100_000;

/** Lists instances, or counts them. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const filter = readFilter(options);
  const { client } = await call.open();
  if (options.flag('count')) {
    const { count, capped } = await client.count(filter, { cap: countCap });
    if (json) writeJson(stdout, { count, capped });
    else stdout.write(`${count}${capped ? '+' : ''}\n`);
    return 0;
  }
  const page = await client.list(filter, {
    limit: options.number('limit') ?? defaultLimit,
    cursor: options.text('cursor'),
    orderBy: options.text('order') as 'created' | 'ended' | undefined,
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) stderr.write('No instances match.\n');
  else writeInstances(terminal, page.items);
  if (page.nextCursor !== undefined) {
    stderr.write(
      `${countOf(page.items.length, 'instance')} shown. Continue with --cursor ${clean(page.nextCursor)}.\n`,
    );
  }
  return 0;
}

/** Writes instances as a table. */
function writeInstances({ stdout }: Terminal, items: readonly InstanceInfo[]): void {
  const nowMs = Date.now();
  writeTable(stdout, items, [
    { title: 'ID', value: ({ id }) => id },
    { title: 'NAME', value: ({ name }) => name, min: 8, drop: 1 },
    { title: 'STATUS', value: ({ status }) => status, style: ({ status }) => statusStyle(status) },
    {
      title: 'AGE',
      value: ({ createdAt }) => formatAge(createdAt, nowMs).replace(' ago', ''),
      align: 'right',
      drop: 3,
    },
    {
      title: 'TOOK',
      value: ({ startedAt, createdAt, endedAt }) =>
        endedAt === undefined ? '' : formatDuration(endedAt - (startedAt ?? createdAt)),
      align: 'right',
      drop: 4,
    },
    { title: 'NOTE', value: noteOf, min: 10, drop: 2 },
  ]);
}

/** The most important fact beside the status. */
function noteOf({ blocked, paused, failure, cancel, terminated, tags }: InstanceInfo): string {
  if (blocked !== undefined) return `blocked: ${blocked.reason}`;
  if (paused !== undefined)
    return paused.reason === undefined ? 'paused' : `paused: ${paused.reason}`;
  if (failure !== undefined) return failure.message;
  if (terminated !== undefined) return terminated.reason;
  if (cancel !== undefined) return cancel.reason;
  return Object.entries(tags ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');
}
