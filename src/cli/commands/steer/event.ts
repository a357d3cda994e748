import type { Call, ExitCode } from '../../command.ts';
import { readJson } from '../../read-json.ts';
import { clean } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';

/** Sends an event to an instance. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const [id = '', name = '', text] = call.operands;
  const payload = text === undefined ? undefined : await readJson(text, '<payload>', terminal);
  const { client } = await call.open();
  await client.raiseEvent(id, name, payload, { key: call.options.text('key') });
  if (json) writeJson(terminal.stdout, { id, event: name });
  else terminal.stdout.write(`${clean(id)}  event ${clean(name)} sent\n`);
  return 0;
}
