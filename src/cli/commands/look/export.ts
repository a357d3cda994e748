import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hint } from '../../hint.ts';
import { clean, countOf } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';

/** Exports the history of an execution as JSON. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const [id = ''] = call.operands;
  const { client } = await call.open();
  const history = await client.exportHistory(id, options.number('execution'));
  const out = options.text('out');
  if (out === undefined) {
    writeJson(stdout, history);
    return 0;
  }
  const path = resolve(terminal.cwd, out);
  try {
    await writeFile(path, `${JSON.stringify(history, null, 2)}\n`, { mode: 0o600 });
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw usage(`Cannot write ${JSON.stringify(path)} (${code}).`, 'Check the path of --out.');
  }
  const events = history.events.length;
  if (json) writeJson(stdout, { path, events });
  else stderr.write(`Wrote ${countOf(events, 'event')} to ${clean(path)}.\n`);
  hint(call, `Run \`perdure replay ${out} --code <file>\` to check code against it.`);
  return 0;
}
