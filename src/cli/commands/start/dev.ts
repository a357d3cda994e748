import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CliError, usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { superviseWorker } from '../../dev/supervisor.ts';
import { findSource } from '../../running/find-source.ts';
import { openForWork } from '../../running/open-store.ts';
import { serveStore } from '../../running/serve-store.ts';
import type { StoreChoice } from '../../running/store-report.ts';
import { defaultStore } from '../../target/choose-target.ts';
import { writeJson } from '../../text/json.ts';
import { writeFields } from '../../text/table.ts';

/** The files that `perdure dev` runs without an argument, the first that exists. */
const defaultFiles = ['src/worker.ts', 'worker.ts', 'src/worker.js', 'worker.js'];

/** Runs a store, a worker that restarts on change, the server and the dashboard, until Ctrl-C. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, options, json } = call;
  const { stdout, stderr } = terminal;
  const file = findFile(call);
  const name = relative(terminal.cwd, file);
  const choice = chooseStore(call);
  const { perdure, isNew } = await openForWork(choice, options.flag('migrate'));
  try {
    const server = await serveStore(perdure, call);
    try {
      const kind = choice.isPostgres ? 'PostgreSQL' : 'SQLite';
      if (json) writeJson(stdout, { store: choice.label, url: server.url, file });
      else {
        writeFields(stdout, [
          ['store    ', `${choice.label} (${kind}${isNew ? ', created' : ''})`],
          [options.flag('no-dashboard') ? 'api      ' : 'dashboard', server.url],
        ]);
      }
      await superviseWorker({
        start: { kind: 'start', file, name, choice },
        terminal,
        onReady: (summary, pid) => {
          const line = `${name}  ${summary}  (pid ${pid}, restarts on change)`;
          if (json) stderr.write(`worker ${line}\n`);
          else writeFields(stdout, [['worker   ', line]]);
        },
      });
    } finally {
      await server.close();
    }
  } finally {
    await perdure.close();
  }
  stderr.write('Stopped.\n');
  return 0;
}

function findFile({ operands, terminal: { cwd } }: Call): string {
  const [given] = operands;
  if (given !== undefined) return findSource(given, cwd);
  const found = defaultFiles.find((file) => existsSync(join(cwd, file)));
  if (found !== undefined) return join(cwd, found);
  throw usage(
    `No file given, and none of ${defaultFiles.join(', ')} exists.`,
    'Pass the file that exports your code, or create a project with `perdure init`.',
  );
}

/** The chosen store, or a new `perdure.db`. */
function chooseStore(call: Call): StoreChoice {
  try {
    return call.choose() as StoreChoice;
  } catch (error) {
    if (!(error instanceof CliError) || error.code !== 'NO_TARGET') throw error;
    const store = join(call.terminal.cwd, defaultStore);
    const source = { kind: 'file' } as const;
    return { kind: 'store', source, store, isPostgres: false, label: defaultStore };
  }
}
