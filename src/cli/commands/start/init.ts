import { relative, resolve } from 'node:path';
import { packageVersion } from '../../../server/package-version.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { createProject, type TemplateName } from '../../init/create-project.ts';
import { shellQuote } from '../../doctor/phrases.ts';
import { writeJson } from '../../text/json.ts';

/** Creates a project from a template. Never overwrites a file. */
export async function run({ operands, options, terminal, json }: Call): Promise<ExitCode> {
  const { stdout, stderr, cwd } = terminal;
  const [given = '.'] = operands;
  if (given === '') {
    throw usage('<directory> is empty.', 'Pass a name, or . for this directory.');
  }
  const directory = resolve(cwd, given);
  const template = (options.text('template') ?? 'hello') as TemplateName;
  const files = await createProject({ template, directory, version: packageVersion() });
  if (json) {
    writeJson(stdout, { directory, template, files });
    return 0;
  }
  for (const file of files) stdout.write(`${file}\n`);
  const path = relative(cwd, directory);
  const enter = path === '' ? '' : `  cd ${shellQuote(path)}\n`;
  stderr.write(`\nNext:\n${enter}  npm install\n  npm start\n  npm run dev\n`);
  return 0;
}
