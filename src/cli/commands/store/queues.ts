import type { DefinitionQueueInfo } from '../../../client/reading/queues.ts';
import type { Call, ExitCode, Output } from '../../command.ts';
import { formatAge, formatCount } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeTable } from '../../text/table.ts';

/** Lists the queues of definitions, the longest waiting first. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { client } = await call.open();
  const items = await client.queues();
  if (json) writeJson(terminal.stdout, { items });
  else if (items.length === 0) terminal.stderr.write('No queues: no work and no live workers.\n');
  else writeQueues(terminal.stdout, items);
  return 0;
}

/** Writes queues as a table. */
export function writeQueues(output: Output, items: readonly DefinitionQueueInfo[]): void {
  const nowMs = Date.now();
  const number = (count: number, capped: true | undefined) =>
    `${formatCount(count)}${capped === true && count >= 10_000 ? '+' : ''}`;
  writeTable(output, items, [
    { title: 'NAME', value: ({ name }: DefinitionQueueInfo) => name, min: 10 },
    { title: 'KIND', value: ({ kind }) => kind, drop: 4 },
    { title: 'READY', value: ({ ready, capped }) => number(ready, capped), align: 'right' },
    { title: 'RUNNING', value: ({ claimed, capped }) => number(claimed, capped), align: 'right' },
    {
      title: 'DELAYED',
      value: ({ delayed, capped }) => number(delayed, capped),
      align: 'right',
      drop: 3,
    },
    {
      title: 'OLDEST',
      value: ({ oldestReadyAt }) =>
        oldestReadyAt === null ? '' : formatAge(oldestReadyAt, nowMs).replace(' ago', ''),
      align: 'right',
      drop: 1,
    },
    {
      title: 'WORKERS',
      value: ({ workers }) => String(workers),
      style: ({ workers, ready }) => (workers === 0 && ready > 0 ? 'red' : undefined),
      align: 'right',
      drop: 2,
    },
    {
      title: 'PAUSED',
      value: ({ pause }) => (pause === undefined ? '' : (pause.reason ?? 'yes')),
      style: () => 'yellow',
      min: 6,
      drop: 5,
    },
  ]);
}
