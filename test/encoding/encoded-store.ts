import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished, type TestContext } from 'vitest';
import { Perdure, silentLogger, type OpenOptions } from '../../src/index.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { querySql } from '../postgres/helpers/server.ts';
import type { StoreKind } from '../engine/engine-store.ts';

/** A store that can be opened with several codecs, and searched as its operator could. */
export interface EncodedStore {
  readonly open: (options?: OpenOptions) => Promise<Perdure>;
  /** Everything that is stored, as bytes: the files, or the rows of all tables. */
  readonly readAll: () => Promise<Buffer>;
}

export const storeKinds: readonly StoreKind[] = ['SQLite', 'PostgreSQL'];

/** Creates an empty store. It is removed when the test ends. Concurrent tests pass their `onTestFinished`. */
export async function createEncodedStore(
  kind: StoreKind,
  whenFinished: TestContext['onTestFinished'] = onTestFinished,
): Promise<EncodedStore> {
  const opened: Perdure[] = [];
  const target = await (kind === 'SQLite' ? sqliteFile() : database());
  whenFinished(async () => {
    for (const perdure of opened) await perdure.close();
    await target.remove();
  });
  return {
    readAll: () => target.readAll(),
    async open(options = {}) {
      const shared = { logger: silentLogger, pollInterval: 100 };
      const perdure = await Perdure.open(target.url, { ...shared, ...options });
      opened.push(perdure);
      return perdure;
    },
  };
}

async function sqliteFile() {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-encoded-'));
  return {
    url: join(folder, 'encoded.db'),
    async readAll() {
      const files = (await readdir(folder)).map((file) => readFile(join(folder, file)));
      return Buffer.concat(await Promise.all(files));
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

async function database() {
  const created = await createMigratedDatabase();
  const { url } = created;
  return {
    url,
    async readAll() {
      const tables = await querySql<{ name: string }>(
        url,
        `SELECT table_name AS name FROM information_schema.tables
         WHERE table_schema = 'perdure' AND table_type = 'BASE TABLE'`,
      );
      const rows = await Promise.all(
        tables.map(({ name }) =>
          querySql<{ line: string }>(url, `SELECT row::text AS line FROM perdure.${name} AS row`),
        ),
      );
      return Buffer.from(
        rows
          .flat()
          .map(({ line }) => line)
          .join('\n'),
      );
    },
    remove: () => created.drop(),
  };
}

/** Whether bytes contain a text: as it is, as hexadecimal digits, or in base64 at any position. */
export function containsText(bytes: Buffer, text: string): boolean {
  const encoded = [0, 1, 2].map((offset) => {
    const base64 = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]).toString('base64');
    // The first and the last characters depend on the bytes around the text.
    return base64.slice(4, -4);
  });
  const forms = [text, Buffer.from(text).toString('hex'), ...encoded];
  return forms.some((form) => bytes.includes(form));
}
