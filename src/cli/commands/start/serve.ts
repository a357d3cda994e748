import type { Call, ExitCode } from '../../command.ts';
import { openForWork } from '../../running/open-store.ts';
import { serveStore } from '../../running/serve-store.ts';
import type { StoreChoice } from '../../running/store-report.ts';
import { untilInterrupted } from '../../running/until-interrupted.ts';
import { writeJson } from '../../text/json.ts';
import { writeFields } from '../../text/table.ts';

/** Serves a store without a worker, until Ctrl-C. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json, options } = call;
  const choice = call.choose() as StoreChoice;
  const { perdure } = await openForWork(choice, options.flag('migrate'));
  try {
    const server = await serveStore(perdure, call);
    try {
      if (json) writeJson(terminal.stdout, { store: choice.label, url: server.url });
      else {
        const what = options.flag('no-dashboard') ? 'api' : 'dashboard';
        writeFields(terminal.stdout, [
          ['store', choice.label],
          [what, server.url],
        ]);
        terminal.stderr.write('Ctrl-C stops the server.\n');
      }
      await untilInterrupted(terminal.interrupted);
    } finally {
      await server.close();
    }
  } finally {
    await perdure.close();
  }
  return 0;
}
