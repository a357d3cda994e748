import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build, type Format } from 'esbuild';
import { Perdure } from 'perdure';
import { describe, expect, it, onTestFinished } from 'vitest';
import { root } from './run-program.ts';

const drivers = ['pg', 'better-sqlite3', 'zod'];

/** Creates a temporary folder with the node_modules of this repository. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-package-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

async function runFile(path: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [path]);
  return stdout.trim();
}

/** Runs code in a child process and returns the drivers that it loaded. */
async function loadedBy(code: string): Promise<string[]> {
  const folder = newFolder();
  const path = join(folder, 'program.mjs');
  writeFileSync(
    path,
    `import { registerHooks } from 'node:module';
const loaded = new Set();
registerHooks({
  load(url, context, next) {
    loaded.add(/.*node_modules\\/([^/]+)/.exec(url)?.[1]);
    return next(url, context);
  },
});
const entry = (name) => import(${JSON.stringify(join(root, 'dist'))} + '/' + name + '.js');
${code}
console.log(${JSON.stringify(drivers)}.filter((name) => loaded.has(name)).join(' '));
`,
  );
  const printed = await runFile(path);
  return printed === '' ? [] : printed.split(' ');
}

describe('driver loading', () => {
  it.each(['index', 'flows', 'provider', 'remote'])(
    'importing entry %s loads no driver',
    async (name) => {
      expect(await loadedBy(`await entry('${name}');`)).toEqual([]);
    },
  );

  it.each(['server', 'dashboard'])('importing entry %s loads only zod', async (name) => {
    expect(await loadedBy(`await entry('${name}');`)).toEqual(['zod']);
  });

  it('opening an SQLite store loads only better-sqlite3', async () => {
    const open = `const perdure = await (await entry('index')).Perdure.open(':memory:');`;
    expect(await loadedBy(`${open} await perdure.close();`)).toEqual(['better-sqlite3']);
  });

  it('opening a PostgreSQL store without a reachable server loads only pg', async () => {
    const open = `await (await entry('index')).Perdure.open('postgres://127.0.0.1:1/none?connect_timeout=1')`;
    expect(await loadedBy(`${open}.catch(() => undefined);`)).toEqual(['pg']);
  });
});

/** Runs the command line and returns the packages that it loaded. */
async function packagesOf(argv: readonly string[]): Promise<readonly string[]> {
  const folder = newFolder();
  const hook = join(folder, 'hook.mjs');
  writeFileSync(
    hook,
    `import { registerHooks } from 'node:module';
const loaded = new Set();
registerHooks({
  load(url, context, next) {
    const [, name] = /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url) ?? [];
    if (name !== undefined) loaded.add(name);
    return next(url, context);
  },
});
process.on('exit', () => process.stderr.write('\\nloaded ' + [...loaded].sort().join(' ')));
`,
  );
  const main = join(root, 'dist', 'cli', 'main.js');
  const args = ['--import', hook, main, ...argv];
  const { stderr } = await promisify(execFile)(process.execPath, args, { cwd: folder });
  const [, names = ''] = /\nloaded (.*)$/.exec(stderr) ?? [];
  return names === '' ? [] : names.split(' ');
}

// The bounds of 150 ms and 400 ms for a cold start, which `npm run bench` measures, need this.
describe('the command line', () => {
  it.each(['--help', 'list --help', 'completion bash'])(
    'perdure %s loads no package',
    async (call) => {
      expect(await packagesOf(call.split(' '))).toEqual([]);
    },
  );

  it('perdure list on an SQLite file loads no driver of PostgreSQL', async () => {
    const store = join(newFolder(), 'app.db');
    await (await Perdure.open(store)).close();
    const names = await packagesOf(['list', '--store', store]);
    expect(names).toContain('better-sqlite3');
    expect(names).not.toContain('pg');
  });
});

describe('bundles', () => {
  const source = `
import { activity, isolatedActivity, orchestration, Perdure } from 'perdure';
import { flow } from 'perdure/flows';

const greet = activity('greet', async (_ctx, name) => 'Hello, ' + name + '!');
const alone = isolatedActivity('alone', { module: 'data:text/javascript,export default () => 1' });
const hello = orchestration('hello', (ctx, name) => ctx.call(greet, name));
const thread = orchestration('thread', (ctx) =>
  ctx.call(alone).catch((error) => error.failure.code),
);
const steps = flow('steps').step('a', () => 'from a flow').output();

async function main() {
  const perdure = await Perdure.open(':memory:');
  const worker = { orchestrations: [hello, thread], activities: [greet, alone], flows: [steps] };
  await perdure.startWorker(worker);
  console.log(await (await perdure.client.start(hello, 'bundle')).result());
  console.log(await (await perdure.client.runFlow(steps)).result());
  console.log(await (await perdure.client.start(thread)).result());
  await perdure.close();
}
void main();
`;

  it.each<[Format, string]>([
    ['esm', 'mjs'],
    ['cjs', 'cjs'],
  ])(
    'an esbuild bundle in %s format runs with better-sqlite3 external',
    async (format, extension) => {
      const folder = newFolder();
      const entry = join(folder, 'main.js');
      const outfile = join(folder, `bundle.${extension}`);
      writeFileSync(entry, source);
      await build({
        entryPoints: [entry],
        outfile,
        format,
        bundle: true,
        platform: 'node',
        target: 'node22',
        external: ['better-sqlite3', 'pg-native'],
        // Resolves the package name to the build, as after an installation.
        alias: {
          'perdure/flows': join(root, 'dist', 'flows.js'),
          perdure: join(root, 'dist', 'index.js'),
        },
        // CommonJS has no import.meta, which only isolated handlers need.
        logOverride: { 'empty-import-meta': 'silent' },
        // CommonJS dependencies load Node modules with require.
        ...(format === 'esm' && {
          banner: {
            js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`,
          },
        }),
      });
      const printed = await runFile(outfile);
      // Isolated handlers do not work in a bundle and fail with INVALID_OPTION.
      expect(printed.split('\n')).toEqual(['Hello, bundle!', 'from a flow', 'INVALID_OPTION']);
    },
  );
});
