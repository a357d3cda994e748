import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { readTags } from '../../filter-options.ts';
import { hint } from '../../hint.ts';
import { readJson } from '../../read-json.ts';
import { idFor } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';
import { waitForResult } from '../look/result.ts';

const onlyTasks = ['priority', 'delay', 'expires-in', 'dedupe-key'] as const;

/** Starts an orchestration, or runs a task. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [name = '', text] = call.operands;
  const isTask = options.flag('task');
  const wrong = onlyTasks.find((option) => options.has(option));
  if (!isTask && wrong !== undefined) throw usage(`--${wrong} needs --task.`);
  if (isTask && options.has('definition-version')) {
    throw usage('--definition-version is for orchestrations: tasks have no versions.');
  }
  if (!options.flag('wait') && options.has('timeout')) throw usage('--timeout needs --wait.');
  const input = text === undefined ? undefined : await readJson(text, '<input>', terminal);
  const shared = { id: options.text('id'), tags: readTags(options.list('tag')) };
  const { client } = await call.open();
  const started = isTask
    ? await client.runTask(name, input, {
        ...shared,
        priority: options.number('priority'),
        delay: options.text('delay'),
        expiresIn: options.text('expires-in'),
        dedupeKey: options.text('dedupe-key'),
      })
    : await client.start(name, input, { ...shared, version: options.text('definition-version') });
  const { id } = started;
  if (options.flag('wait')) {
    if (!json) terminal.stderr.write(`${idFor(terminal.stderr, id)}\n`);
    return waitForResult({ client, id, call, timeout: options.text('timeout') });
  }
  const created = 'created' in started ? { created: started.created } : {};
  if (json) writeJson(terminal.stdout, { id, ...created });
  else terminal.stdout.write(`${idFor(terminal.stdout, id)}\n`);
  hint(call, `Run \`perdure watch ${idArgument(id)}\` to follow it.`);
  return 0;
}
