import type { StateEntry } from '../../../client/reading/state.ts';
import { CliError } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';
import { writeTable } from '../../text/table.ts';

/** Prints the state of an instance, or the value of one key as JSON. */
export async function run(call: Call): Promise<ExitCode> {
  const { stdout, stderr } = call.terminal;
  const [id = '', key] = call.operands;
  const { client } = await call.open();
  if (key !== undefined) {
    const entry = await client.state(id, key);
    if (entry === undefined) throw noValue(id, key);
    writeJson(stdout, call.json ? { items: [entry] } : entry.value);
    return 0;
  }
  const items = await client.state(id);
  if (call.json) writeJson(stdout, { items });
  else if (items.length === 0) stderr.write('The instance has no state.\n');
  else {
    writeTable(stdout, items, [
      { title: 'KEY', value: (entry: StateEntry) => entry.key, min: 10 },
      { title: 'VERSION', value: ({ version }) => String(version), align: 'right', drop: 1 },
      { title: 'VALUE', value: ({ value }) => JSON.stringify(value), min: 10 },
    ]);
  }
  return 0;
}

function noValue(id: string, key: string): CliError {
  return new CliError(
    3,
    'NO_VALUE',
    `Instance ${JSON.stringify(id)} has no state ${JSON.stringify(key)}.`,
    `Run \`perdure state ${idArgument(id)}\` to list its keys.`,
  );
}
