import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Figures } from '../benchmark.ts';

const staticFolder = join(import.meta.dirname, '../../dist/dashboard/static');

interface ManifestEntry {
  readonly file: string;
  readonly isEntry?: boolean;
  readonly css?: readonly string[];
  readonly imports?: readonly string[];
}

/** A1: gzip sizes of JavaScript and CSS, of the first load of the list and overall, and the size of all files. */
export function bundleSizes(): Figures {
  const text = readFileSync(join(staticFolder, 'manifest.json'), 'utf8');
  const manifest = JSON.parse(text) as Readonly<Record<string, ManifestEntry>>;
  const first = new Set<string>();
  const visit = (key: string): void => {
    const entry = manifest[key];
    if (entry === undefined || first.has(entry.file)) return;
    for (const file of [entry.file, ...(entry.css ?? [])]) first.add(file);
    for (const imported of entry.imports ?? []) visit(imported);
  };
  for (const [key, { isEntry = false }] of Object.entries(manifest)) if (isEntry) visit(key);
  visit('pages/instances/instances.tsx');
  const all = new Set(Object.values(manifest).flatMap(({ file, css = [] }) => [file, ...css]));
  const kB = (files: ReadonlySet<string>): number => {
    const code = [...files].filter((file) => /\.(?:js|css)$/.test(file));
    const sizes = code.map((file) => gzipSync(readFileSync(join(staticFolder, file))).length);
    return sizes.reduce((sum, size) => sum + size, 0) / 1_000;
  };
  const stored = globSync('**/*', { cwd: staticFolder })
    .map((path) => statSync(join(staticFolder, path)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  return { firstLoadKB: kB(first), allChunksKB: kB(all), packageKB: stored / 1_000 };
}
