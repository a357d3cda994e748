import type { AuditAction, AuditRecord } from '../../../providers/contract/management.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, formatCount, formatTime } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeTable } from '../../text/table.ts';
import { readDate } from '../../times.ts';

const defaultLimit = 20;

/** Lists operator actions, newest first. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const actions = options.list('action') as readonly AuditAction[];
  const { client } = await call.open();
  const page = await client.listAudit({
    ...(actions.length > 0 && { action: actions }),
    actor: options.text('actor'),
    instanceId: options.text('id'),
    from: readDate(options, 'from'),
    to: readDate(options, 'to'),
    limit: options.number('limit') ?? defaultLimit,
    cursor: options.text('cursor'),
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) stderr.write('No actions match.\n');
  else {
    writeTable(stdout, page.items, [
      { title: 'TIME', value: ({ at }: AuditRecord) => formatTime(at) },
      { title: 'ACTION', value: ({ action }) => action },
      { title: 'ACTOR', value: ({ actor }) => actor ?? '', min: 6, drop: 1 },
      {
        title: 'INSTANCES',
        value: ({ instances }) => formatCount(instances),
        align: 'right',
        drop: 3,
      },
      { title: 'INSTANCE', value: ({ instanceId }) => instanceId ?? '', min: 8, drop: 2 },
      { title: 'REASON', value: ({ reason }) => reason ?? '', min: 8, drop: 4 },
    ]);
  }
  if (page.nextCursor !== undefined) {
    stderr.write(`There are more actions. Continue with --cursor ${clean(page.nextCursor)}.\n`);
  }
  return 0;
}
