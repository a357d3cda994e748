/**
 * Checks the walks of ARCHITECTURE.md: numbered lists of modules below a marker `<!-- walk: at most N files -->`.
 *
 * - Each item begins with the path of a module that exists.
 * - Each module after the first is imported by an earlier one, or joined to it by a module that the item names as
 *   `(port: …)`, an interface that both import, or `(wired by …)`, one or more modules that lead from one to the other.
 * - A walk has at most as many files as its marker says.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { moduleImports } from './module-imports.ts';

const root = join(import.meta.dirname, '..');

interface Step {
  readonly line: number;
  readonly file: string;
  /** Modules that lead from an earlier file of the walk to this one, in either direction. */
  readonly joints: readonly string[];
}

interface Walk {
  readonly line: number;
  readonly maxFiles: number;
  readonly steps: readonly Step[];
}

/** Reads the walks of a document. */
function readWalks(document: string): readonly Walk[] {
  const walks: { line: number; maxFiles: number; steps: Step[] }[] = [];
  let current: Step[] | undefined;
  for (const [index, text] of document.split('\n').entries()) {
    const line = index + 1;
    const marker = /^<!-- walk: at most (\d+) files -->$/.exec(text);
    if (marker !== null) {
      current = [];
      walks.push({ line, maxFiles: Number(marker[1]), steps: current });
    } else if (text.startsWith('#')) current = undefined;
    const file = /^\d+\. `([^`]+)`/.exec(text)?.[1];
    const named = /\((?:port:|wired by) ([^)]+)\)/.exec(text)?.[1] ?? '';
    const joints = Array.from(named.matchAll(/`([^`]+)`/g), ([, joint]) => joint ?? '');
    if (file !== undefined) current?.push({ line, file, joints });
  }
  return walks;
}

/** The modules of the repository that a module imports, types included. */
function importsOf(file: string): ReadonlySet<string> {
  const path = join(root, file);
  if (!existsSync(path)) return new Set();
  return new Set(
    moduleImports(file, readFileSync(path, 'utf8')).flatMap(({ specifier }) =>
      specifier?.startsWith('.') ? [posix.join(posix.dirname(file), specifier)] : [],
    ),
  );
}

function touches(one: string, other: string): boolean {
  return importsOf(one).has(other) || importsOf(other).has(one);
}

/** Returns the problem of one step, given the steps before it, or undefined. */
function problemOf({ file, joints }: Step, before: readonly Step[]): string | undefined {
  const missing = [file, ...joints].find((path) => !existsSync(join(root, path)));
  if (missing !== undefined) return `${missing} does not exist`;
  if (before.length === 0) return undefined;
  if (before.some((earlier) => earlier.file === file)) return `${file} is named twice`;
  if (joints.length === 0)
    return before.some((earlier) => importsOf(earlier.file).has(file))
      ? undefined
      : `${file} is imported by no earlier file of the walk`;
  const chain = [file, ...joints];
  const gap = joints.find((joint, place) => !touches(joint, chain[place] ?? ''));
  if (gap !== undefined)
    return `${gap} neither imports nor is imported by the module named before it`;
  const last = joints.at(-1) ?? '';
  return before.some((earlier) => touches(last, earlier.file))
    ? undefined
    : `${last} does not join ${file} to an earlier file of the walk`;
}

function problemsOf({ line, maxFiles, steps }: Walk): string[] {
  const problems = steps.flatMap((step, place) => {
    const problem = problemOf(step, steps.slice(0, place));
    return problem === undefined ? [] : [`${step.line} ${problem}`];
  });
  if (steps.length === 0) problems.push(`${line} the walk has no steps`);
  if (steps.length > maxFiles)
    problems.push(`${line} the walk has ${steps.length} files, above ${maxFiles}`);
  return problems;
}

// A canary: each kind of mistake must be found.
const canary = readWalks(
  [
    '<!-- walk: at most 2 files -->',
    '1. `src/client/client.ts`: imports no script.',
    '2. `scripts/check-walks.ts`: not imported.',
    '3. `src/no-such-file.ts`: missing.',
    '4. `scripts/ci.ts` (port: `scripts/clean.ts`): not joined.',
    '<!-- walk: at most 1 files -->',
  ].join('\n'),
).flatMap(problemsOf);
if (canary.length !== 5) throw new Error(`The canary was not found: ${canary.join('; ')}`);

const walks = readWalks(readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8'));
const problems = walks.flatMap(problemsOf);
for (const problem of problems) console.error(`ARCHITECTURE.md:${problem}`);
console.log(
  `${walks.length} walks of ${walks.map(({ steps }) => steps.length).join(', ')} files, ${problems.length} problems.`,
);
if (problems.length > 0 || walks.length < 6) process.exitCode = 1;
