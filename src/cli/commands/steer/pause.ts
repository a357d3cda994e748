import type { PauseResult, PauseTarget } from '../../../client/managing/pause-request.ts';
import type { DefinitionKind } from '../../../providers/contract/pausing.ts';
import { notFound } from '../../../model/failures/errors.ts';
import { readAudit } from '../../audit-options.ts';
import { CliError, usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hasFilter } from '../../filter-options.ts';
import { clean } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Pauses instances, or a definition for all workers. */
export function pause(call: Call): Promise<ExitCode> {
  return change(call, 'pause');
}

/** Resumes paused instances, or a definition. */
export function resume(call: Call): Promise<ExitCode> {
  return change(call, 'resume');
}

async function change(call: Call, verb: 'pause' | 'resume'): Promise<ExitCode> {
  const { options, operands } = call;
  const definition = options.text('definition');
  if (definition !== undefined) return changeDefinition(call, verb, definition);
  const tree = options.flag('tree');
  const bulk = isBulk(call);
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb,
      doing: verb === 'pause' ? 'pausing' : 'resuming',
      done: `${verb}d`,
      tree,
      defaults: verb === 'pause' ? { status: ['pending', 'running'] } : { paused: true },
      run: (filter, given) => client.bulk[verb](filter, { ...given, tree }),
    });
  }
  return forEachInstance(call, operands, {
    apply: async (id) => {
      const result = await client[verb](id, { ...readAudit(call), tree });
      if (!result.found) throw notFound(id);
      if (verb === 'pause' && !result.paused) throw notPausable(id, result);
      return result;
    },
    text: ({ changed }) =>
      changed ? `${verb}d` : verb === 'pause' ? 'paused already' : 'not paused',
  });
}

function notPausable(id: string, { status }: PauseResult): CliError {
  return new CliError(
    4,
    'INSTANCE_OVER',
    `Instance ${JSON.stringify(id)} is ${status ?? 'deleted'} and cannot be paused.`,
  );
}

async function changeDefinition(
  call: Call,
  verb: 'pause' | 'resume',
  name: string,
): Promise<ExitCode> {
  const { options, operands, terminal, json } = call;
  if (operands.length > 0 || hasFilter(options)) {
    throw usage('Pass --definition alone, without ids and filters.');
  }
  // It would be ignored, and a dry run must change nothing.
  const wrong = ['all', 'dry-run', 'max', 'cursor', 'tree'].find((option) => options.has(option));
  if (wrong !== undefined)
    throw usage(`--${wrong} is for instances. Leave it out with --definition.`);
  const kind = options.text('definition-kind') as DefinitionKind | undefined;
  const target: PauseTarget = { name, kind };
  const { client } = await call.open();
  const result = await client[verb](target, readAudit(call));
  if (json) writeJson(terminal.stdout, { items: [{ definition: name, ...result }] });
  else {
    const note = result.changed ? '' : ' already';
    terminal.stdout.write(`definition ${clean(name)}  ${verb}d${note}\n`);
    if (!result.found) {
      terminal.stderr.write(`The store has had no work of ${clean(JSON.stringify(name))} yet.\n`);
    }
  }
  return 0;
}
