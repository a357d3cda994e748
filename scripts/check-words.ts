/** Checks that no file of the repository names a path of a machine or a package registry. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');

const FORBIDDEN: readonly { readonly what: string; readonly pattern: RegExp }[] = [
  { what: 'a path of one machine', pattern: /(?<![\w.~-])\/(?:work|farm|root|home|Users)\// },
  { what: 'a registry host', pattern: /\bregistry\.[\w-]+\.\w+|\bnpmjs\.org|\byarnpkg\.com/i },
  { what: 'a download address', pattern: /"resolved"\s*:/ },
];

/** Returns the registry host of this machine, which may be a mirror with any name. */
function configuredRegistryHost(): string {
  const address = execFileSync('npm', ['config', 'get', 'registry'], {
    cwd: root,
    encoding: 'utf8',
  });
  return new URL(address.trim()).hostname;
}

/** Returns tracked and new files, without deleted ones. */
function repositoryFiles(): string[] {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const names = execFileSync('git', list, { cwd: root, encoding: 'utf8' }).split('\0');
  return names.filter((name) => name !== '' && existsSync(join(root, name)));
}

function findings(text: string, host: string): string[] {
  return text.split('\n').flatMap((line, index) => {
    const found = FORBIDDEN.filter(({ pattern }) => pattern.test(line)).map(({ what }) => what);
    if (line.includes(host)) found.push('the registry host of this machine');
    return found.map((what) => `${index + 1} names ${what}`);
  });
}

const host = configuredRegistryHost();
const names = repositoryFiles();
const problems = names.flatMap((name) => {
  const found = findings(readFileSync(join(root, name), 'utf8'), host);
  return found.map((finding) => `${name}:${finding}`);
});

// A canary: these lines must be found. They are assembled here, because this file is checked too.
const canary = [
  ['', 'root', 'app'].join('/'),
  ['"resolved"', ' "x"'].join(':'),
  ['registry', 'example', 'com'].join('.'),
];
for (const line of canary) {
  if (findings(line, host).length === 0) problems.push(`the canary was not found: ${line}`);
}

for (const problem of problems) console.error(problem);
console.log(`${names.length} files read, ${problems.length} problems.`);
if (problems.length > 0 || names.length === 0) process.exitCode = 1;
