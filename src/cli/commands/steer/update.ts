import type { Call, ExitCode } from '../../command.ts';
import { readJson } from '../../read-json.ts';
import { writeJson } from '../../text/json.ts';

/** Sends an update to an instance, and prints the reply. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal } = call;
  const [id = '', name = '', text] = call.operands;
  const input = text === undefined ? undefined : await readJson(text, '<input>', terminal);
  const { client } = await call.open();
  const output = await client.update(id, name, input, {
    key: options.text('key'),
    timeout: options.text('timeout'),
  });
  if (call.json) writeJson(terminal.stdout, { id, update: name, output: output ?? null });
  else writeJson(terminal.stdout, output ?? null);
  return 0;
}
