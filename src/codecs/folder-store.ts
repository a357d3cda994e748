import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ExternalKey, ExternalPayloadStore } from '../model/encoding/external-store.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { platform } from '../model/platform.ts';

const temporarySuffix = '.tmp';
const keyPattern = /^[\w.-]+(?:\/[\w.-]+)*$/;
/** A temporary file or an empty folder of this age was left by a process that crashed. */
const leftoverMs = 60 * 60_000;
/** How often `put` creates its folder again, because another call has deleted it while it was empty. */
const maxCreations = 20;

/**
 * Keeps payloads as files in a folder, for one host or a shared file system. The file system must tell upper and lower case
 * apart: keys differ by it. `list` deletes temporary files and empty
 * folders that are older than one hour. Throws `INVALID_OPTION`.
 */
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
      // Written beside its place and renamed, so that a crash leaves no part of a file under the key.
      const temporary = `${path}.${randomUUID()}${temporarySuffix}`;
      const file = await createFile(temporary);
      try {
        try {
          await file.writeFile(bytes);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, path);
        await syncFolders(folder, dirname(key));
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
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
      for (const parent of new Set(keys.map((key) => dirname(key))))
        await deleteEmptyFolders(folder, parent);
    },
    async list({ prefix = '', after, limit }) {
      const found: ExternalKey[] = [];
      // All keys with the prefix are in the folder of its last slash.
      const parent = prefix.slice(0, Math.max(prefix.lastIndexOf('/'), 0));
      if (parent !== '') pathOf(parent);
      for await (const key of walk(folder, parent, { prefix, after })) {
        if (found.length >= limit) break;
        if (after !== undefined && compareKeys(key, after) <= 0) continue;
        const info = await stat(join(folder, key)).catch(() => undefined);
        if (info !== undefined) found.push({ key, writtenAt: info.mtimeMs });
      }
      return found;
    },
  };
}

/** Creates a file and its folders. */
async function createFile(path: string): Promise<FileHandle> {
  for (let creation = 1; ; creation += 1) {
    try {
      await mkdir(dirname(path), { recursive: true });
      return await open(path, 'wx', 0o600);
    } catch (error) {
      if (!isMissing(error) || creation === maxCreations) throw error;
    }
  }
}

/** Flushes a folder and its parents up to `root`: without it, a power loss can undo the rename. */
async function syncFolders(root: string, folder: string): Promise<void> {
  for (let each = folder; ; each = dirname(each)) {
    const handle = await open(join(root, each), 'r').catch((error: unknown) => {
      // Windows cannot open folders, and needs no flush of them.
      if (hasCode(error, 'EISDIR') || hasCode(error, 'EPERM')) return undefined;
      throw error;
    });
    try {
      await handle?.sync();
    } finally {
      await handle?.close();
    }
    if (each === '.') return;
  }
}

/** Yields the keys of a folder in order. Skips folders that come before `after` or do not match `prefix`. */
async function* walk(
  root: string,
  parent: string,
  { prefix, after }: { readonly prefix: string; readonly after: string | undefined },
): AsyncGenerator<string> {
  const entries = await readdir(join(root, parent), { withFileTypes: true }).catch(
    (error: unknown) => {
      if (isMissing(error) || hasCode(error, 'ENOTDIR')) return [];
      throw error;
    },
  );
  if (entries.length === 0 && (await isLeftover(join(root, parent))))
    await deleteEmptyFolders(root, parent);
  for (const entry of entries.toSorted((a, b) => compare(a.name, b.name))) {
    const key = parent === '' ? entry.name : `${parent}/${entry.name}`;
    if (!key.startsWith(prefix)) continue;
    const depth = key.split('/').length;
    const place = after?.split('/').slice(0, depth).join('/');
    if (place !== undefined && compareKeys(key, place) < 0) continue;
    if (entry.isDirectory()) yield* walk(root, key, { prefix, after });
    else if (entry.name.endsWith(temporarySuffix)) await deleteOldTemporary(root, key);
    else yield key;
  }
}

/** Deletes a temporary file of a process that crashed. */
async function deleteOldTemporary(root: string, key: string): Promise<void> {
  const path = join(root, key);
  if (!(await isLeftover(path))) return;
  await rm(path, { force: true });
  await deleteEmptyFolders(root, dirname(key));
}

async function isLeftover(path: string): Promise<boolean> {
  const info = await stat(path).catch(() => undefined);
  return info !== undefined && info.mtimeMs <= platform.now() - leftoverMs;
}

/** Deletes a folder and its parents below `root`, as far as they are empty. */
async function deleteEmptyFolders(root: string, folder: string): Promise<void> {
  try {
    for (let each = folder; each !== '' && each !== '.'; each = dirname(each))
      await rmdir(join(root, each));
  } catch {
    // It has entries, or another call has deleted it.
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
  return hasCode(error, 'ENOENT');
}

function hasCode(error: unknown, code: string): boolean {
  return (error as { readonly code?: unknown }).code === code;
}
