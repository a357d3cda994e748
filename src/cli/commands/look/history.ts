import type { HistoryEntry } from '../../../client/reading/history.ts';
import type { HistoryEvent } from '../../../model/event.ts';
import type { Call, ExitCode } from '../../command.ts';
import { describeEvent, operationOf } from '../../text/describe-event.ts';
import { formatTime } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeTable } from '../../text/table.ts';

const shownPayloadBytes = 200;

/** Lists the events of an execution. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const [id = ''] = call.operands;
  const kinds = options.list('event');
  const { client } = await call.open();
  const page = await client.history(id, {
    executionId: options.number('execution'),
    after: options.number('after'),
    before: options.number('before'),
    limit: options.number('limit'),
    order: options.flag('newest') ? 'desc' : 'asc',
    ...(kinds.length > 0 && { kinds: kinds as readonly HistoryEvent['kind'][] }),
    operation: options.number('operation'),
    // A person sees the start of a payload; a program gets all of it.
    ...(json ? { payloads: 'full' } : { payloads: 'head', headBytes: shownPayloadBytes }),
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) stderr.write('No events match.\n');
  else {
    writeTable(stdout, page.items, [
      { title: 'EVENT', value: (entry: HistoryEntry) => String(entry.id), align: 'right' },
      { title: 'TIME', value: ({ event }) => formatTime(event.at), drop: 2 },
      { title: 'KIND', value: ({ event }) => event.kind },
      { title: 'OP', value: ({ event }) => operationOf(event), align: 'right', drop: 3 },
      { title: 'DETAIL', value: ({ event }) => describeEvent(event), min: 10, drop: 1 },
    ]);
  }
  if (page.nextAfter !== undefined) {
    stderr.write(`There are more events. Continue with --after ${page.nextAfter}.\n`);
  }
  if (page.nextBefore !== undefined) {
    stderr.write(`There are more events. Continue with --before ${page.nextBefore}.\n`);
  }
  return 0;
}
