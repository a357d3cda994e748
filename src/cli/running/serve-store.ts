import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Perdure } from '../../perdure.ts';
import type { PerdureServer, ServeOptions } from '../../server/serve.ts';
import { isLoopback } from '../../server/access/origin-check.ts';
import { CliError, usage } from '../cli-error.ts';
import type { Call } from '../command.ts';
import { parseJson } from '../read-json.ts';

const defaultPort = 7373;
const portsTried = 10;

/** Serves the API and the dashboard as the options say. Without --port, takes the next free port. */
export async function serveStore(
  perdure: Perdure,
  { options, terminal }: Pick<Call, 'options' | 'terminal'>,
): Promise<PerdureServer> {
  const given = options.number('port');
  const host = options.text('host');
  const tokens = options.text('tokens');
  const hosts = options.list('allow-host');
  const readOnly = options.flag('read-only');
  if (readOnly && options.flag('no-dashboard')) {
    throw usage('--read-only needs the dashboard.', 'Leave out --no-dashboard.');
  }
  if (host !== undefined && tokens === undefined && !isLoopback(host)) {
    throw usage(
      `--host ${JSON.stringify(host)} is reachable from other machines, so it needs --tokens.`,
      'Run `perdure token create ops --role operate --json > tokens.json`, and pass --tokens tokens.json.',
    );
  }
  const settings: ServeOptions = {
    ...(host !== undefined && { host }),
    ...(tokens !== undefined && { tokens: tokenLoader(resolve(terminal.cwd, tokens)) }),
    ...(hosts.length > 0 && { allowedHosts: hosts }),
    dashboard: options.flag('no-dashboard') ? false : readOnly ? { readOnly } : true,
  };
  const { serve } = await import('../../server.ts');
  for (let port = given ?? defaultPort; ; port += 1) {
    try {
      return await serve(perdure, { ...settings, port });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
      if (given === undefined && port < defaultPort + portsTried - 1) continue;
      throw new CliError(
        1,
        'EADDRINUSE',
        `Port ${port} is in use.`,
        'Pass another one with --port, or --port 0 for any free port.',
      );
    }
  }
}

/** Reads the file for each check of the tokens, so that a change needs no restart. */
function tokenLoader(file: string): () => readonly never[] {
  const read = (): readonly never[] => {
    const parsed = parseJson(readFileSync(file, 'utf8'));
    const list = Array.isArray(parsed) ? (parsed as unknown[]) : [parsed];
    // `perdure token create --json` prints the entry beside the token, which the server must not know.
    return list.map((one) => ((one as { readonly entry?: unknown } | null)?.entry ?? one) as never);
  };
  try {
    read();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw usage(
      `Cannot read the tokens in ${JSON.stringify(file)}: ${reason}.`,
      'Create one with `perdure token create`.',
    );
  }
  return read;
}
