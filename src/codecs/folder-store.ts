import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ExternalKey, ExternalPayloadStore } from '../model/encoding/external-store.ts';
import { PerdureError } from '../model/failures/errors.ts';

const temporarySuffix = '.tmp';
const keyPattern = /^[\w.-]+(?:\/[\w.-]+)*$/;

/** Keeps payloads as files in a folder, for one host or a shared file system. Throws `INVALID_OPTION`. */
export function folderStore(folder: string): ExternalPayloadStore {
  if (typeof folder !== 'string' || folder === '') {
    throw new PerdureError('INVALID_OPTION', 'Invalid `folder` in folderStore(): must be a path.');
  }
  const pathOf = (key: string): string => {
    const isSafe = keyPattern.test(key) && !key.split('/').includes('..');
    if (!isSafe) throw new PerdureError('INVALID_INPUT', 'Invalid key of an external payload.');
    return join(folder, key);
  };
  return {
    async put(key, bytes) {
      const path = pathOf(key);
      await mkdir(dirname(path), { recursive: true });
      // Written beside its place and renamed, so that a crash leaves no part of a file under the key.
      const temporary = `${path}.${randomUUID()}${temporarySuffix}`;
      const file = await open(temporary, 'wx', 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    },
    async get(key) {
      try {
        return await readFile(pathOf(key));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    async delete(keys) {
      await Promise.all(keys.map((key) => rm(pathOf(key), { force: true })));
    },
    async list({ prefix = '', after, limit }) {
      const found: ExternalKey[] = [];
      for await (const key of walk(folder, '', after)) {
        if (found.length >= limit) break;
        if (!key.startsWith(prefix) || (after !== undefined && compareKeys(key, after) <= 0))
          continue;
        const info = await stat(join(folder, key)).catch(() => undefined);
        if (info !== undefined) found.push({ key, writtenAt: info.mtimeMs });
      }
      return found;
    },
  };
}

/** Yields the keys of a folder in order. Skips folders that come before `after`. */
async function* walk(
  root: string,
  parent: string,
  after: string | undefined,
): AsyncGenerator<string> {
  const entries = await readdir(join(root, parent), { withFileTypes: true }).catch(
    (error: unknown) => {
      if (isMissing(error)) return [];
      throw error;
    },
  );
  for (const entry of entries.toSorted((a, b) => compare(a.name, b.name))) {
    const key = parent === '' ? entry.name : `${parent}/${entry.name}`;
    const depth = key.split('/').length;
    const place = after?.split('/').slice(0, depth).join('/');
    if (place !== undefined && compareKeys(key, place) < 0) continue;
    if (entry.isDirectory()) yield* walk(root, key, after);
    else if (!entry.name.endsWith(temporarySuffix)) yield key;
  }
}

/** Compares keys as `walk` orders them: folder by folder. */
function compareKeys(one: string, other: string): number {
  const [a, b] = [one.split('/'), other.split('/')];
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const order = compare(a[index] ?? '', b[index] ?? '');
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function isMissing(error: unknown): boolean {
  return (error as { readonly code?: unknown }).code === 'ENOENT';
}
