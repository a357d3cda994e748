import type { WorkerInfo } from '../../../client/reading/workers.ts';
import type { OnConflict } from '../../../model/admission-options.ts';
import type { AdmissionOptions } from '../../../model/admission-options.ts';
import { closestName } from '../../../model/closest-name.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { readTags } from '../../filter-options.ts';
import { hint } from '../../hint.ts';
import { readJson } from '../../read-json.ts';
import { clean, idFor } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';
import { waitForResult } from '../look/result.ts';

const onlyTasks = ['expires-in'] as const;

function readHeaders(given: readonly string[]): Record<string, string> | undefined {
  if (given.length === 0) return undefined;
  return Object.fromEntries(
    given.map((one) => {
      const [name = '', ...value] = one.split('=');
      if (value.length === 0) throw usage(`Invalid --header ${one}: use name=value.`);
      return [name, value.join('=')];
    }),
  );
}

/** Reads the options that find another run. */
function readKeys(options: Call['options']): AdmissionOptions {
  const [key, debounceKey] = [options.text('dedupe-key'), options.text('debounce-key')];
  const window = options.text('dedupe-for');
  if (key === undefined && window !== undefined) throw usage('--dedupe-for needs --dedupe-key.');
  const wait = options.text('debounce-wait');
  const maxWait = options.text('debounce-max-wait');
  if (debounceKey === undefined && (wait ?? maxWait) !== undefined) {
    throw usage('--debounce-wait and --debounce-max-wait need --debounce-key.');
  }
  if (debounceKey !== undefined && wait === undefined) {
    throw usage('--debounce-key needs --debounce-wait.');
  }
  return {
    ...(key !== undefined &&
      (window === undefined ? { dedupeKey: key } : { dedupe: { key, for: window } })),
    ...(debounceKey !== undefined &&
      wait !== undefined && { debounce: { key: debounceKey, wait, maxWait } }),
  };
}

/**
 * The warning that no live worker has the started definition, with the near miss or the option that is missing. None if no
 * worker is live.
 */
async function missingDefinition(
  client: { workers(): Promise<readonly WorkerInfo[]> },
  { name, isTask }: { readonly name: string; readonly isTask: boolean },
): Promise<string | undefined> {
  // The start has succeeded: a token that may not list workers changes nothing.
  const workers = await client.workers().catch(() => []);
  const live = workers.filter(({ status }) => status === 'live');
  if (live.length === 0 || live.some(({ definitionsOmitted }) => definitionsOmitted === true))
    return undefined;
  const orchestrations = live.flatMap((one) => one.orchestrations.map((each) => each.name));
  const tasks = live.flatMap((one) => one.tasks);
  const [names, others] = isTask ? [tasks, orchestrations] : [orchestrations, tasks];
  if (names.includes(name)) return undefined;
  const kind = isTask ? 'task' : 'orchestration';
  if (others.includes(name)) {
    return `No live worker has ${kind} ${JSON.stringify(name)}, but ${isTask ? 'an orchestration' : 'a task'} of this name. Cancel this one, and start it again ${isTask ? 'without' : 'with'} --task.`;
  }
  const near = closestName(name, names);
  return `No live worker has ${kind} ${JSON.stringify(name)}: it waits for one.${near === undefined ? '' : ` Did you mean ${JSON.stringify(near)}?`}`;
}

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
  if (isTask && options.has('on-conflict')) throw usage('--on-conflict is for orchestrations.');
  if (!options.flag('wait') && options.has('timeout')) throw usage('--timeout needs --wait.');
  const input = text === undefined ? undefined : await readJson(text, '<input>', terminal);
  const shared = {
    id: options.text('id'),
    tags: readTags(options.list('tag')),
    headers: readHeaders(options.list('header')),
    priority: options.number('priority'),
    delay: options.text('delay'),
    timeout: options.text('run-timeout'),
    ...readKeys(options),
    key: options.text('key'),
    weight: options.number('weight'),
  };
  const { client } = await call.open();
  const started = isTask
    ? await client.runTask(name, input, {
        ...shared,
        expiresIn: options.text('expires-in'),
      })
    : await client.start(name, input, {
        ...shared,
        version: options.text('definition-version'),
        onConflict: options.text('on-conflict') as OnConflict | undefined,
      });
  const { id } = started;
  const warn = async (): Promise<void> => {
    const warning = await missingDefinition(client, { name, isTask });
    if (warning !== undefined)
      terminal.stderr.write(`${terminal.stderr.style('yellow', 'warning:')} ${clean(warning)}\n`);
  };
  if (!started.created && !json) {
    terminal.stderr.write(`${clean(JSON.stringify(id))} exists already: no new run was started.\n`);
  }
  if (options.flag('wait')) {
    if (!json) {
      terminal.stderr.write(`${idFor(terminal.stderr, id)}\n`);
      await warn();
    }
    return waitForResult({ client, id, call, timeout: options.text('timeout') });
  }
  if (json) writeJson(terminal.stdout, { id, created: started.created });
  else terminal.stdout.write(`${idFor(terminal.stdout, id)}\n`);
  await warn();
  hint(call, `Run \`perdure watch ${idArgument(id)}\` to follow it.`);
  return 0;
}
