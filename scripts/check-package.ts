/**
 * Tests the packed package in an empty project. Runs the quick start as ESM JavaScript, type-checks it and the type tests with
 * `strict` on the oldest and newest supported compilers, imports every entry point, and checks the error on an old
 * Node.js. Checks the size of the dashboard and serves it. Creates and
 * compiles a project of each template. Needs a build.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { templates } from '../src/cli/init/create-project.ts';
import { nodeVersionProblem } from '../src/require-node.ts';
import { BROWSER_ENTRIES } from './layer-rules.ts';

const root = join(import.meta.dirname, '..');

/** The oldest supported TypeScript first; the README names it. */
const compilers = ['typescript-5.6', 'typescript-5.9', 'typescript'];

interface Manifest {
  readonly name: string;
  readonly exports: Record<string, unknown>;
  readonly repository?: unknown;
  readonly homepage?: unknown;
  readonly bugs?: unknown;
  readonly devDependencies: Record<string, string>;
}
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;
const entryPoints = Object.keys(manifest.exports).map((path) => manifest.name + path.slice(1));

/** Runs a command and returns its standard output. Throws with the output if it fails. */
function run(cwd: string, command: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')} exited with ${status}:\n${stdout}${stderr}`);
}

function expect(holds: boolean, sentence: string): void {
  if (!holds) throw new Error(sentence);
}

function installInto(project: string): void {
  const packed = run(
    root,
    'npm',
    'pack',
    '--json',
    '--ignore-scripts',
    '--pack-destination',
    project,
  );
  const [archive] = JSON.parse(packed) as { filename: string }[];
  const dependencies = {
    [manifest.name]: `file:./${archive?.filename}`,
    '@types/node': manifest.devDependencies['@types/node'],
    // The optional peer of `perdure/otel`.
    '@opentelemetry/api': manifest.devDependencies['@opentelemetry/api'],
  };
  const consumer = { name: 'consumer', private: true, type: 'module', dependencies };
  writeFileSync(join(project, 'package.json'), JSON.stringify(consumer));
  run(project, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund');
}

function writeSources(project: string): void {
  cpSync(join(import.meta.dirname, 'package-consumer'), project, { recursive: true });
  // Without drizzle and kysely, whose declarations take longer than all others.
  cpSync(join(root, 'test', 'types'), join(project, 'types'), {
    recursive: true,
    filter: (path) => !path.endsWith('transactions.test-d.ts'),
  });
  const source = readFileSync(join(project, 'quick-start.ts'), 'utf8');
  writeFileSync(join(project, 'quick-start.js'), stripTypeScriptTypes(source));
  writeFileSync(
    join(project, 'entry-points.ts'),
    entryPoints.map((name, index) => `export * as entry${index} from '${name}';\n`).join(''),
  );
}

function checkQuickStart(project: string): void {
  const printed = run(project, process.execPath, 'quick-start.js');
  expect(printed === 'Hello, World!\n', `The quick start printed ${JSON.stringify(printed)}.`);
}

function checkEntryPoints(project: string): void {
  for (const name of entryPoints) {
    const program = `console.log(Object.keys(await import('${name}')).length)`;
    const names = run(project, process.execPath, '--input-type=module', '--eval', program);
    expect(Number(names) > 0, `${name} exports nothing.`);
  }
}

async function checkTypes(project: string): Promise<void> {
  const problems = await Promise.all(
    compilers.map(async (name) => {
      const compiler = join(root, 'node_modules', name, 'bin', 'tsc');
      const output = await promisify(execFile)(process.execPath, [compiler, '-p', project]).then(
        () => '',
        (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
      );
      // Indented lines belong to the previous one.
      return output
        .split(/\n(?! )/)
        .filter(isOurs)
        .map((problem) => `${name}: ${problem}`);
    }),
  );
  expect(problems.flat().length === 0, problems.flat().join('\n'));
}

/** Whether a problem is in the consumer or this package, not in a dependency. */
function isOurs(problem: string): boolean {
  const [, dependency] = /^\S*node_modules\/([^/]+)\//.exec(problem) ?? [];
  return problem !== '' && (dependency === undefined || dependency === manifest.name);
}

/**
 * Checks that the package contains the link targets of the README. The registry resolves relative links with
 * `repository`, so that must be set.
 */
function checkReadme(project: string): void {
  const installed = join(project, 'node_modules', manifest.name);
  const { repository, homepage, bugs } = manifest;
  expect([repository, homepage, bugs].every(Boolean), 'repository, homepage and bugs must be set.');
  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const links = [...readme.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map(
    ([, to]) => to ?? '',
  );
  const missing = links.filter((to) => !existsSync(join(installed, to)));
  expect(
    missing.length === 0,
    `README.md links to files that are not packed: ${missing.join(', ')}.`,
  );
}

// In bytes: the scripts and styles that the page loads first, all of them, and all files.
const dashboardLimits = { first: 60_000, chunks: 150_000, files: 600_000 };

/** Checks the size of the packed dashboard and serves its page. Returns the sizes. */
function checkDashboard(project: string): string {
  const folder = join(project, 'node_modules', manifest.name, 'dist', 'dashboard', 'static');
  const names = globSync('**/*.*', { cwd: folder });
  const html = readFileSync(join(folder, 'index.html'), 'utf8');
  const sizeOf = (name: string): number => readFileSync(join(folder, name)).byteLength;
  const gzipOf = (name: string): number => gzipSync(readFileSync(join(folder, name))).byteLength;
  const sum = (sizes: readonly number[]): number => sizes.reduce((one, other) => one + other, 0);
  const chunks = names.filter((name) => /\.(js|css)$/.test(name));
  const sizes = {
    first: sum(chunks.filter((name) => html.includes(name)).map(gzipOf)),
    chunks: sum(chunks.map(gzipOf)),
    files: sum(names.map(sizeOf)),
  };
  for (const [what, limit] of Object.entries(dashboardLimits)) {
    const size = sizes[what as keyof typeof sizes];
    expect(size > 0 && size <= limit, `dashboard, ${what}: ${size} bytes; the limit is ${limit}.`);
  }
  const program = `
import { Perdure } from 'perdure';
import { dashboard } from 'perdure/dashboard';
await using perdure = await Perdure.open(':memory:');
const handler = dashboard(perdure, { insecure: true, basePath: '/a/' });
const headers = { host: 'localhost', accept: 'text/html' };
const response = await handler(new Request('http://localhost/a/', { headers }));
console.log(response.status, (await response.text()).includes('<base href="/a/" />'));`;
  const printed = run(project, process.execPath, '--input-type=module', '--eval', program);
  expect(printed === '200 true\n', `The dashboard printed ${JSON.stringify(printed)}.`);
  return `${sizes.first} bytes first, ${sizes.chunks} in all chunks, ${sizes.files} in all files`;
}

/** Creates a project of each template with the packed command line, compiles it, and runs the first one. */
function checkTemplates(project: string): void {
  const program = join(project, 'node_modules', manifest.name, 'dist', 'cli', 'main.js');
  for (const template of templates) {
    run(project, process.execPath, program, 'init', template, '--template', template);
    const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    run(project, process.execPath, compiler, '-p', template);
  }
  const printed = run(join(project, 'hello'), process.execPath, 'src/main.ts');
  expect(printed === 'Hello, World!\n', `The template hello printed ${JSON.stringify(printed)}.`);
}

/** Finds the first Node.js on the PATH that is too old. */
function findOldNode(): { readonly path: string; readonly refusal: string } | undefined {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, process.platform === 'win32' ? 'node.exe' : 'node');
    if (!existsSync(path)) continue;
    const version = execFileSync(path, ['--version'], { encoding: 'utf8' }).trim();
    const refusal = nodeVersionProblem(version);
    if (refusal !== undefined) return { path, refusal };
  }
  return undefined;
}

/** Imports an entry point and reports on exit whether the native module was loaded. */
const importProgram = (name: string): string => `
import { createRequire } from 'node:module';
const { cache } = createRequire(import.meta.url);
process.on('exit', () => {
  if (Object.values(cache).some((it) => it.loaded && it.id.includes('better-sqlite3'))) {
    console.error('better-sqlite3 was loaded');
  }
});
await import('${name}');
`;

// Browser entry points do not check the Node.js version and load no native module.
function isForBrowsers(entry: string): boolean {
  return BROWSER_ENTRIES.includes(entry.replace('perdure/', '') + '.ts');
}

/** Checks that every other entry point throws on an old Node.js before it loads the native module. */
function checkOldNode(project: string): string {
  const old = findOldNode();
  if (old === undefined) return 'skipped, as no Node.js older than 22 is on the PATH';
  for (const name of entryPoints.filter((entry) => !isForBrowsers(entry))) {
    writeFileSync(join(project, 'import.js'), importProgram(name));
    const { status, stderr } = spawnSync(old.path, ['import.js'], {
      cwd: project,
      encoding: 'utf8',
    });
    const refused = status !== 0 && stderr.includes(`Error: ${old.refusal}\n`);
    expect(
      refused,
      `${name} on an old Node.js should print "${old.refusal}" but printed:\n${stderr}`,
    );
    expect(!/better.sqlite3/.test(stderr), `${name} loads the native module too early:\n${stderr}`);
  }
  return 'rejected with a clear message';
}

expect(
  existsSync(join(root, 'dist', 'index.js')),
  'dist/index.js is missing: run `npm run build`.',
);
const project = mkdtempSync(join(tmpdir(), 'perdure-consumer-'));
try {
  installInto(project);
  writeSources(project);
  checkQuickStart(project);
  checkEntryPoints(project);
  checkReadme(project);
  const sizes = checkDashboard(project);
  await checkTypes(project);
  // After the types: the consumer's configuration would include these projects.
  checkTemplates(project);
  console.log(
    `${entryPoints.join(', ')} work as installed; dashboard: ${sizes}; an old Node.js: ${checkOldNode(project)}.`,
  );
} finally {
  rmSync(project, { recursive: true, force: true });
}
