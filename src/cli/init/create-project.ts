import { existsSync, statSync } from 'node:fs';
import { copyFile, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { refused, usage } from '../cli-error.ts';

/** The templates of `perdure init`. */
export const templates = ['hello', 'service', 'agent', 'flow'] as const;

export type TemplateName = (typeof templates)[number];

// The same path from src/ and from dist/.
const folder = fileURLToPath(new URL('../../../templates', import.meta.url));

/** npm packs no `.gitignore`, so the templates have it under another name. */
const renamed: Readonly<Record<string, string>> = { gitignore: '.gitignore' };

/** Copies a template. Writes nothing if one of its files exists. Returns the paths below the directory. */
export async function createProject(params: {
  readonly template: TemplateName;
  readonly directory: string;
  readonly version: string;
}): Promise<readonly string[]> {
  const { template, directory, version } = params;
  const from = join(folder, template);
  const sources = (await readdir(from, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(from.length + 1))
    .toSorted();
  const files = sources.map((source) => ({ source, path: renamed[source] ?? source }));
  for (const { path } of files) checkDirectory(dirname(join(directory, path)));
  const taken = files.filter(({ path }) => existsSync(join(directory, path)));
  if (taken.length > 0) {
    throw refused(
      `${JSON.stringify(directory)} already has ${taken.map(({ path }) => path).join(', ')}. Nothing was written.`,
      'Pass another directory: `perdure init my-project`.',
    );
  }
  const name = projectName(directory) || template;
  for (const { source, path } of files) {
    const target = join(directory, path);
    await makeDirectory(dirname(target));
    if (path === 'package.json') {
      const manifest = JSON.parse(await readFile(join(from, source), 'utf8')) as Manifest;
      await writeNew(target, toManifest(manifest, name, version));
    } else if (path === 'README.md') {
      const text = await readFile(join(from, source), 'utf8');
      await writeNew(target, text.replace(/^# .*/, `# ${name}`));
    } else {
      await copyFile(join(from, source), target, 1);
    }
  }
  return files.map(({ path }) => path);
}

/** Throws a usage error if a path that must be a directory is or is below a file. */
function checkDirectory(path: string): void {
  for (let part = path; ; part = dirname(part)) {
    const isDirectory = isDirectoryAt(part);
    if (isDirectory === false) {
      throw usage(
        `${JSON.stringify(part)} is not a directory. Nothing was written.`,
        'Pass another directory: `perdure init my-project`.',
      );
    }
    if (isDirectory === true || part === dirname(part)) return;
  }
}

/** Whether a path is a directory; `undefined` if it does not exist or cannot be read. */
function isDirectoryAt(path: string): boolean | undefined {
  try {
    return statSync(path).isDirectory();
  } catch {
    return undefined;
  }
}

/** Creates a directory and its parents one by one: with `recursive`, Node.js never returns in a file system such as /proc. */
async function makeDirectory(path: string): Promise<void> {
  if (isDirectoryAt(path) === true) return;
  if (path !== dirname(path)) await makeDirectory(dirname(path));
  try {
    await mkdir(path);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw usage(
      `Cannot create the directory ${JSON.stringify(path)} (${code}).`,
      'Check its permissions, or pass another directory: `perdure init my-project`.',
    );
  }
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

function toManifest(manifest: Manifest, name: string, version: string): string {
  const dependencies = { ...manifest.dependencies, perdure: `^${version}` };
  return `${JSON.stringify({ ...manifest, name, dependencies }, null, 2)}\n`;
}

/** The name of a directory as npm allows it, or an empty string. */
function projectName(directory: string): string {
  return basename(directory)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[-._]+/, '');
}

/** Fails if the file was created meanwhile. */
function writeNew(path: string, text: string): Promise<void> {
  return writeFile(path, text, { flag: 'wx' });
}
