import { inspect } from 'node:util';
import { CliError } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { findSource } from '../../running/find-source.ts';
import { openForWork } from '../../running/open-store.ts';
import type { StoreChoice } from '../../running/store-report.ts';
import { untilInterrupted } from '../../running/until-interrupted.ts';
import { loadWorkerModule } from '../../running/worker-module.ts';
import { writeJson } from '../../text/json.ts';
import { writeFields } from '../../text/table.ts';

/** Runs the definitions that a file exports, until Ctrl-C or SIGTERM. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json, options, operands } = call;
  const [given = ''] = operands;
  const file = findSource(given, terminal.cwd);
  const choice = call.choose() as StoreChoice;
  const module = await loadWorkerModule(file, given).catch((error: unknown) => {
    if (error instanceof CliError) throw error;
    // With its stack, which names the line of the file.
    terminal.stderr.write(`${inspect(error)}\n`);
    throw new CliError(1, 'MODULE_FAILED', `${given} cannot run.`);
  });
  const { perdure } = await openForWork(choice, options.flag('migrate'));
  try {
    const name = options.text('worker-name');
    const worker = await perdure.startWorker({
      ...module.options,
      ...(name !== undefined && { name }),
    });
    if (json) {
      const { pid } = process;
      writeJson(terminal.stdout, { store: choice.label, file, pid, definitions: module.summary });
    } else {
      writeFields(terminal.stdout, [
        ['store', choice.label],
        ['worker', `${given}  ${module.summary}`],
      ]);
      terminal.stderr.write('Ctrl-C stops the worker after its running handlers.\n');
    }
    await Promise.race([untilInterrupted(terminal.interrupted), worker.stopped]);
    if (!terminal.interrupted.aborted) throw replaced();
  } finally {
    await perdure.close();
  }
  return 0;
}

function replaced(): CliError {
  return new CliError(
    5,
    'STORE_REPLACED',
    'The worker has stopped, because the database file was deleted or replaced.',
    'Start it again to work on the new file.',
  );
}
