import { resolve } from 'node:path';
import type { ExportedHistory } from '../../../client/reading/history.ts';
import type { OrchestrationDefinition } from '../../../index.ts';
import { closestName } from '../../../model/closest-name.ts';
import { CliError, usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { readJson } from '../../read-json.ts';
import { importModule } from '../../running/worker-module.ts';
import { clean, countOf } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';

/** Replays an exported history with the code of a module, and compares. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [file = ''] = call.operands;
  const code = options.text('code');
  if (code === undefined) {
    throw usage('Missing --code: the module that exports the orchestration.');
  }
  const source = file === '-' ? '-' : `@${file}`;
  const history = readExport(await readJson(source, 'the history', terminal), file);
  const definition = findDefinition(await loadModule(resolve(terminal.cwd, code)), history, code);
  const { checkReplay } = await import('../../../testing/replay-test.ts');
  const { instanceId, incarnation, executionId, events } = history;
  const check = { definition, history: events, instanceId, incarnation, executionId };
  const result = await checkReplay(check);
  if (json) writeJson(terminal.stdout, { ...result, events: events.length });
  else if (result.ok) {
    terminal.stdout.write(
      `The code agrees with the ${countOf(events.length, 'event')} of ${clean(JSON.stringify(instanceId))}.\n`,
    );
  } else {
    throw new CliError(
      1,
      'NONDETERMINISM',
      `The code and the history disagree at event ${result.eventId}: ${result.message}`,
      'Register the old code as its own version, or restore the old code path.',
    );
  }
  return result.ok ? 0 : 1;
}

function readExport(value: unknown, file: string): ExportedHistory {
  const given = value as Partial<ExportedHistory> | null;
  if (Array.isArray(given?.events) && typeof given.instanceId === 'string') {
    return given as ExportedHistory;
  }
  throw usage(
    `${JSON.stringify(file)} is not an exported history.`,
    'Create one with `perdure export <id> --out <file>`.',
  );
}

async function loadModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await importModule(path, path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
      throw usage(
        `Node.js ${process.version} cannot load ${JSON.stringify(path)}.`,
        'Use Node.js 22.18 or newer for TypeScript, or pass a JavaScript file.',
      );
    }
    throw usage(`Cannot load ${JSON.stringify(path)} for --code: ${message}`);
  }
}

/** Finds the orchestration of a history among the exports of a module. A flow has one, too. */
function findDefinition(
  module: Readonly<Record<string, unknown>>,
  { events }: ExportedHistory,
  code: string,
): OrchestrationDefinition {
  const [first] = events;
  if (first?.kind !== 'executionStarted') {
    throw usage('The history does not begin with the start of an execution.');
  }
  const definitions = Object.values(module)
    .flat()
    .flatMap((value) => toDefinition(value) ?? []);
  const sameName = definitions.filter(({ name }) => name === first.name);
  const found =
    sameName.find(({ version }) => version === first.version) ??
    (sameName.length === 1 ? sameName[0] : undefined);
  if (found !== undefined) return found;
  const names = [...new Set(definitions.map(({ name }) => name))];
  const near = closestName(first.name, names);
  throw usage(
    `${code} exports no orchestration ${JSON.stringify(first.name)} with version ${JSON.stringify(first.version)}.${near === undefined || near === first.name ? '' : ` Did you mean ${JSON.stringify(near)}?`}`,
    names.length === 0 ? 'Export the orchestration.' : `It exports ${names.join(', ')}.`,
  );
}

function toDefinition(value: unknown): OrchestrationDefinition | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { kind, orchestration } = value as {
    readonly kind?: unknown;
    readonly orchestration?: unknown;
  };
  if (kind === 'orchestration') return value as OrchestrationDefinition;
  return kind === 'flow' ? toDefinition(orchestration) : undefined;
}
