import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { toMs } from '../../../model/values/duration.ts';
import { checkName } from '../../../model/values/names.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { writeJson } from '../../text/json.ts';

/** Creates a token and the entry for the server. The token is random and stored nowhere else. */
export async function create(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const [given = ''] = call.operands;
  const name = checkName(given, 'Token name');
  const definitions = options.list('definition');
  const expiresIn = options.text('expires-in');
  const { createToken } = await import('../../../server/access/tokens.ts');
  const { token, sha256 } = createToken();
  const entry = {
    name,
    role: options.text('role') ?? 'read',
    sha256,
    ...(definitions.length > 0 && { definitions }),
    ...(expiresIn !== undefined && { expiresAt: Date.now() + toMs(expiresIn, 'expires-in') }),
  };
  const out = options.text('out');
  if (out !== undefined) await writeToken(resolve(terminal.cwd, out), token);
  if (json) {
    writeJson(stdout, { ...(out === undefined && { token }), entry });
    return 0;
  }
  if (out === undefined) stdout.write(`${token}\n`);
  stderr.write(
    `Add this entry to the tokens of the server. It has only the hash:\n${JSON.stringify(entry, null, 2)}\n`,
  );
  stderr.write(
    out === undefined
      ? 'The token above is not stored. Keep it in a file, and pass it with PERDURE_TOKEN or --token-file.\n'
      : `The token is in ${out}. Pass it with --token-file ${out}.\n`,
  );
  return 0;
}

/** Writes a new file that only its owner can read. */
async function writeToken(path: string, token: string): Promise<void> {
  try {
    await writeFile(path, `${token}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw usage(
      code === 'EEXIST'
        ? `The file ${JSON.stringify(path)} exists. A token does not overwrite it.`
        : `Cannot write ${JSON.stringify(path)} (${code}).`,
      'Pass another path with --out.',
    );
  }
}
