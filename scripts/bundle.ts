/**
 * Bundles src/ into dist/: one file per entry point and thread, and the chunks that they share. Packages stay imports.
 * `npm run build` runs it beside the compiler, which writes the declarations.
 */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { rolldown, type Plugin, type PluginContext } from 'rolldown';
import { assignChunks, THREADS } from './bundle-chunks.ts';
import { BROWSER_ENTRIES } from './layer-rules.ts';

const root = join(import.meta.dirname, '..');
const src = join(root, 'src');
const chunkFolder = 'chunks';

/** Modules that are files of their own because Node.js starts them by path. */
const PROGRAMS: readonly string[] = ['cli/main', 'cli/dev/worker-program', ...THREADS];

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { default: string }>;
};
const entryPoints = Object.values(exports).map(
  ({ default: path }) => /^\.\/dist\/(.+)\.js$/.exec(path)?.[1] ?? path,
);

const versionCheck = 'require-node';

/** Whether an entry point checks the version of Node.js first. */
function needsNode(name: string): boolean {
  return entryPoints.includes(name) && !BROWSER_ENTRIES.includes(`${name}.ts`);
}

/** The path of a module below src/, without its extension. */
function nameOf(id: string): string {
  return relative(src, id).replaceAll('\\', '/').replace(/\.ts$/, '');
}

const placeModule = '\0module-place';

/**
 * Keeps `import.meta` of a module as if it was not bundled: its place in dist/ is that of its source in src/. Modules find
 * threads, templates and the dashboard by it. A bundle of an application has none, so the path is `undefined` or does not exist.
 */
const modulePlace: Plugin = {
  name: 'module-place',
  resolveId: (id) => (id === placeModule ? id : null),
  load: (id) =>
    id === placeModule
      ? `const here = import.meta.url;
export const urlOf = (path) => here && new URL(path, new URL('..', here)).href;`
      : null,
  transform: (code, id) => {
    if (id === placeModule || !code.includes('import.meta')) return null;
    if (/\bimport\.meta\.(?!url\b)/.test(code)) {
      throw new Error(`${id}: use import.meta.url, the only part that the bundle keeps.`);
    }
    const place = `urlOf(${JSON.stringify(`${nameOf(id)}.js`)})`;
    const found = code.replaceAll(/\bimport\.meta\.url\b/g, place);
    // The lines stay as they are.
    return {
      code: `${found}\nimport { urlOf } from ${JSON.stringify(placeModule)};\n`,
      map: {
        version: 3,
        sources: [id],
        mappings: `AAAA${';AACA'.repeat(code.split('\n').length - 1)}`,
      },
    };
  },
};

let chunkOf: ReadonlyMap<string, string> = new Map();

/** Reads the graph of modules, and assigns each to a chunk. */
const chunks: Plugin = {
  name: 'chunks',
  buildEnd(error) {
    if (error !== undefined) return;
    chunkOf = assignChunks((entry) => reachable(this, join(src, `${entry}.ts`)));
  },
};

function reachable(context: PluginContext, entry: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (id: string): void => {
    if (found.has(id)) return;
    found.add(id);
    for (const next of context.getModuleInfo(id)?.importedIds ?? []) visit(next);
  };
  visit(entry);
  return new Set([...found].filter((id) => id.startsWith(src)).map(nameOf));
}

/**
 * Escapes characters outside ASCII, which are in literals only. One of them makes V8 keep the whole file with two bytes per
 * character: 1.2 MB for a worker on SQLite.
 */
const ascii: Plugin = {
  name: 'ascii',
  // Not in renderChunk: the bundler prints literals again after it.
  generateBundle(_options, files) {
    for (const file of Object.values(files)) {
      if (file.type === 'chunk') file.code = file.code.replaceAll(/[\u0080-\uffff]/g, escapeUnit);
    }
  },
};

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

const bundle = await rolldown({
  input: Object.fromEntries(
    [versionCheck, ...entryPoints, ...PROGRAMS].map((name) => [name, join(src, `${name}.ts`)]),
  ),
  platform: 'node',
  preserveEntrySignatures: 'allow-extension',
  external: (id) => !/^[./\0]/.test(id) && !id.startsWith(src),
  tsconfig: join(root, 'tsconfig.build.json'),
  // Modules run nothing on import, except the check of the Node.js version.
  plugins: [modulePlace, chunks, ascii],
});
await bundle.write({
  dir: join(root, 'dist'),
  format: 'es',
  sourcemap: true,
  keepNames: true,
  comments: false,
  // Before the imports of packages: an old Node.js gets one sentence, not an error of a native module.
  banner: ({ name }) => (needsNode(name) ? `import './${versionCheck}.js';` : ''),
  entryFileNames: '[name].js',
  chunkFileNames: `${chunkFolder}/[name].js`,
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: [
      {
        debugName: 'chunks',
        name: (id) => (id === placeModule ? 'base' : (chunkOf.get(nameOf(id)) ?? null)),
      },
    ],
  },
});
await bundle.close();
