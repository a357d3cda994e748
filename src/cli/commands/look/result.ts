import type { ClientSurface } from '../../../client/client.ts';
import type { InstanceInfo } from '../../../client/reading/instance-info.ts';
import { CliError } from '../../cli-error.ts';
import type { Call, ExitCode, Terminal } from '../../command.ts';
import { reportOf } from '../../exit-codes.ts';
import { clean, cleanJson } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';

/** Waits for the end of an instance and prints its output. */
export async function run(call: Call): Promise<ExitCode> {
  const [id = ''] = call.operands;
  const { client } = await call.open();
  return waitForResult({ client, id, call, timeout: call.options.text('timeout') });
}

/** Waits for the end of an instance and prints its output. Returns 7 if it did not complete. */
export async function waitForResult(params: {
  readonly client: ClientSurface;
  readonly id: string;
  readonly call: Pick<Call, 'json' | 'terminal'>;
  readonly timeout: string | undefined;
}): Promise<ExitCode> {
  const { client, id, call, timeout } = params;
  const { json, terminal } = call;
  const wait = client.wait(id, { timeout });
  const noted = json ? undefined : setTimeout(() => void explain(client, id, terminal), 3_000);
  const info = await wait
    .finally(() => clearTimeout(noted))
    .catch((error: unknown) => {
      const { exitCode, code, message, next } = reportOf(error);
      // The first argument of `start` is a name, so the id is filled in here.
      throw new CliError(
        exitCode,
        code,
        message,
        next?.replaceAll('<id>', () => idArgument(id)),
      );
    });
  const { status, output, failure, cancel, terminated } = info;
  if (json) {
    writeJson(terminal.stdout, {
      id,
      status,
      ...(output !== undefined && { output }),
      ...(failure !== undefined && { failure }),
      ...(cancel !== undefined && { cancel }),
      ...(terminated !== undefined && { terminated }),
    });
  } else if (status === 'completed') {
    const text = JSON.stringify(output, null, terminal.stdout.isTTY ? 2 : 0) ?? 'null';
    terminal.stdout.write(`${cleanJson(text)}\n`);
  } else {
    reportEnd(terminal, info);
  }
  return status === 'completed' ? 0 : 7;
}

/** Writes what an instance waits for, once. A person should not wait for a worker that does not run. */
async function explain(client: ClientSurface, id: string, { stderr }: Terminal): Promise<void> {
  const why = await client.why(id).catch(() => undefined);
  if (why !== undefined) stderr.write(`${stderr.style('dim', clean(why.text))}\n`);
}

/** Writes how an instance ended that did not complete. */
export function reportEnd({ stderr }: Terminal, info: InstanceInfo): void {
  const { id, status, failure, cancel, terminated } = info;
  const reason = failure?.message ?? terminated?.reason ?? cancel?.reason;
  const code = failure?.code === undefined ? '' : ` (${clean(failure.code)})`;
  const because = reason === undefined ? '.' : `: ${clean(reason)}${code}`;
  stderr.write(
    `${stderr.style('red', 'error:')} Instance ${clean(JSON.stringify(id))} ended as ${status}${because}\n`,
  );
  if (status === 'failed')
    stderr.write(`Run \`perdure retry ${clean(idArgument(id))}\` to run it again.\n`);
}
