import { notFound } from '../../../model/failures/errors.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, formatDuration } from '../../text/format.ts';
import { definitionText } from '../../text/definition-text.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { wrap } from '../../text/table.ts';

/** Explains what an instance waits for, or how it ended. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout } = terminal;
  const [id = ''] = call.operands;
  const { client } = await call.open();
  const why = await client.why(id);
  if (json) {
    writeJson(stdout, why);
    return 0;
  }
  const info = await client.get(id);
  if (info === undefined) throw notFound(id);
  const sinceMs = (info.endedAt ?? Date.now()) - (info.startedAt ?? info.createdAt);
  const status = stdout.style(statusStyle(why.status) ?? 'bold', why.status);
  const duration = `${info.endedAt === undefined ? 'for' : 'after'} ${formatDuration(sinceMs)}`;
  stdout.write(
    `${stdout.style('bold', clean(id))}  ${clean(definitionText(info))}  ${status} ${duration}\n`,
  );
  for (const line of wrap(why.text, stdout.columns)) stdout.write(`${line}\n`);
  return 0;
}
