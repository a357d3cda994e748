/**
 * Checks that src/ follows the import rules of layer-rules.ts, including type-only imports, and has no import cycles. It also
 * checks a canary with one breach of each kind, so that a broken checker fails.
 */
import { readFileSync, globSync } from 'node:fs';
import { join, posix } from 'node:path';
import {
  BROWSER_ENTRIES,
  layerOf,
  mayImport,
  mayImportComputed,
  mayImportPackage,
} from './layer-rules.ts';
import { moduleImports, type ModuleImport } from './module-imports.ts';

const REPOSITORY = join(import.meta.dirname, '..');
const CANARY = join(import.meta.dirname, 'layers-canary');
/** The expected breaches of the canary, one line per rule. */
const CANARY_BREACHES = readFileSync(join(CANARY, 'expected.txt'), 'utf8').trim().split('\n');

type Modules = ReadonlyMap<string, readonly ModuleImport[]>;

function readModules(source: string): Modules {
  const paths = globSync('**/*.{ts,tsx}', { cwd: source }).map((path) =>
    path.replaceAll('\\', '/'),
  );
  return new Map(
    paths
      .sort()
      .map((path) => [path, moduleImports(path, readFileSync(join(source, path), 'utf8'))]),
  );
}

/** Resolves a relative specifier to a path below src/. */
function resolve(from: string, specifier: string): string {
  return posix.join(posix.dirname(from), specifier);
}

function isTest(path: string): boolean {
  return path.endsWith('.test.ts');
}

/** Returns why an import is not allowed; `undefined` if it is. */
function breach(from: string, specifier: string | undefined, modules: Modules): string | undefined {
  const layer = layerOf(from);
  if (layer === undefined) return undefined; // Reported once, by folderBreaches.
  if (specifier === undefined) {
    return mayImportComputed(from) ? undefined : 'imports a computed name, which cannot be checked';
  }
  // Vite bundles style sheets of the app and of its libraries.
  if (layer === 'dashboard/app' && specifier.endsWith('.css')) return undefined;
  if (!specifier.startsWith('.')) {
    return mayImportPackage(layer, specifier) ? undefined : `${layer} must not import ${specifier}`;
  }
  const to = resolve(from, specifier);
  if (to.startsWith('..')) return `imports ${specifier}, outside src`;
  if (!modules.has(to)) return `imports ${specifier}, which is not a module of src`;
  if (isTest(to)) return `imports the test ${to}`;
  const target = layerOf(to);
  if (target === undefined || mayImport(layer, target)) return undefined;
  return `${layer} must not import ${target} (${to})`;
}

/** Returns the breaches of the import rules. Tests may import anything. */
function arrowBreaches(modules: Modules): string[] {
  return [...modules]
    .filter(([path]) => !isTest(path))
    .flatMap(([path, imports]) =>
      imports.flatMap(({ specifier, line }) => {
        const reason = breach(path, specifier, modules);
        return reason === undefined ? [] : [`${path}:${line} ${reason}`];
      }),
    );
}

function folderBreaches(modules: Modules): string[] {
  return [...modules.keys()]
    .filter((path) => layerOf(path) === undefined)
    .map((path) => `${path}:1 lies in a folder that no layer rule names`);
}

/** Returns one line per import cycle, by depth-first search. */
function cycles(modules: Modules): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string): void => {
    if (trail.includes(path)) {
      found.push(`cycle: ${[...trail.slice(trail.indexOf(path)), path].join(' -> ')}`);
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const { specifier, typeOnly } of modules.get(path) ?? []) {
      if (specifier?.startsWith('.') && !typeOnly) visit(resolve(path, specifier));
    }
    trail.pop();
    done.add(path);
  };
  for (const path of modules.keys()) visit(path);
  return found;
}

/** An entry point must check the Node.js version before it loads other modules. */
function entryBreaches(modules: Modules): string[] {
  const { exports } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
    exports: Record<string, { default: string }>;
  };
  return Object.values(exports)
    .map((target) => posix.basename(target.default, '.js') + '.ts')
    .filter((entry) => modules.has(entry) && !BROWSER_ENTRIES.includes(entry))
    .filter((entry) => modules.get(entry)?.[0]?.specifier !== './require-node.ts')
    .map((entry) => `${entry}:1 must import './require-node.ts' before anything else`);
}

/** Modules that browsers load must not import packages or modules of Node.js. */
function browserBreaches(modules: Modules): string[] {
  const reached = new Set(BROWSER_ENTRIES.filter((entry) => modules.has(entry)));
  const breaches: string[] = [];
  for (const path of reached) {
    for (const { specifier, line, typeOnly } of modules.get(path) ?? []) {
      if (specifier === undefined || typeOnly) continue;
      if (specifier.startsWith('.')) reached.add(resolve(path, specifier));
      else breaches.push(`${path}:${line} imports ${specifier}, but browsers load it`);
    }
  }
  return breaches;
}

function check(root: string): { readonly count: number; readonly breaches: string[] } {
  const modules = readModules(join(root, 'src'));
  return {
    count: modules.size,
    breaches: [arrowBreaches, folderBreaches, entryBreaches, browserBreaches, cycles].flatMap(
      (rule) => rule(modules),
    ),
  };
}

const canary = check(CANARY).breaches;
const missed = CANARY_BREACHES.filter((line) => !canary.includes(line));
const surplus = canary.filter((line) => !CANARY_BREACHES.includes(line));
const { count, breaches } = check(REPOSITORY);

const problems = [
  ...missed.map((line) => `the canary was not reported: ${line}`),
  ...surplus.map((line) => `the canary was reported beyond expected.txt: ${line}`),
  ...(count === 0 ? ['no module was read below src'] : []),
  ...breaches.map((line) => `src/${line}`),
];
for (const problem of problems) console.error(problem);
console.log(`${count} modules read, ${breaches.length} breaches, ${canary.length} in the canary.`);
if (problems.length > 0) process.exitCode = 1;
