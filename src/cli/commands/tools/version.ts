import { packageVersion } from '../../../server/package-version.ts';
import type { Call, ExitCode } from '../../command.ts';
import { writeJson } from '../../text/json.ts';

/** Prints the versions of Perdure and Node.js. */
export async function run({ json, terminal: { stdout } }: Call): Promise<ExitCode> {
  const versions = { perdure: packageVersion(), node: process.version.slice(1) };
  if (json) writeJson(stdout, versions);
  else stdout.write(`perdure ${versions.perdure}, Node.js ${versions.node}\n`);
  return 0;
}
