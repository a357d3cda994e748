/**
 * Prepares a release: `npm run release -- 0.2.0` sets the version and dates the changelog; commit, tag and push what it
 * changed. `npm run release -- --check v0.2.0` checks that a tag, package.json and the changelog agree.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findReleaseProblems, prepareRelease } from './release-files.ts';

const root = join(import.meta.dirname, '..');
const paths = { manifest: 'package.json', lock: 'package-lock.json', changelog: 'CHANGELOG.md' };
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const files = {
  manifest: read(paths.manifest),
  lock: read(paths.lock),
  changelog: read(paths.changelog),
};

const [first = '', second = ''] = process.argv.slice(2);
if (first === '--check') {
  const problems = findReleaseProblems(files, second.replace(/^v/, ''));
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
  else console.log(`${second} is ready to be published.`);
} else {
  const today = new Date().toISOString().slice(0, 10);
  const prepared = prepareRelease(files, { version: first, today });
  for (const key of ['manifest', 'lock', 'changelog'] as const) {
    writeFileSync(join(root, paths[key]), prepared[key]);
  }
  console.log(
    `Version ${first} is prepared. Run npm test, commit, tag v${first} and push the tag.`,
  );
}
