import { readAudit } from '../../audit-options.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hint } from '../../hint.ts';
import { idFor } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';

/** Copies the first events of an instance to a new one. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [source = ''] = call.operands;
  const from = readPoint(options.text('from') ?? 'failure');
  const input = await options.json('input');
  const { client } = await call.open();
  const { id } = await client.fork(source, {
    ...readAudit(call),
    from,
    id: options.text('id'),
    executionId: options.number('execution'),
    input,
  });
  if (json) writeJson(terminal.stdout, { id });
  else terminal.stdout.write(`${idFor(terminal.stdout, id)}\n`);
  hint(call, `Run \`perdure watch ${idArgument(id)}\` to follow it.`);
  return 0;
}

function readPoint(from: string): 'failure' | 'start' | number {
  if (from === 'failure' || from === 'start') return from;
  if (/^\d+$/.test(from)) return Number(from);
  throw usage(
    `Invalid --from ${JSON.stringify(from)}: use failure, start or the id of an event.`,
    'Run `perdure history <id>` to see the ids of the events.',
  );
}
