import { Perdure, type Client } from 'perdure';
import { runInLanes } from './benchmark.ts';
import { copyPostgresRows } from './copy-postgres-rows.ts';
import { copySqliteRows } from './copy-sqlite-rows.ts';
import { definitions, hello } from './definitions.ts';
import { providerOf, unsynced } from './store-kind.ts';

const realCount = 1_000;

/** Runs one instance to its end. */
type RunOne = (client: Client) => Promise<unknown>;

const runHello: RunOne = async (client) => (await client.start(hello, 'World')).result();

/** What is copied, and how often. */
export interface RowCopies {
  readonly realCount: number;
  readonly copies: number;
  /** Ids begin with their time: the copies lie in the past, in the order of their keys. */
  readonly earlier: (id: string, copy: number) => string;
}

/**
 * Makes a store that looks as if so many instances (by default hellos) had run to their end in it: a thousand really
 * do, and their rows are copied under new keys and ids that follow one another in time, as generated ids do.
 */
export async function createFinishedInstances(
  store: string,
  count: number,
  runOne = runHello,
): Promise<void> {
  await runForReal(store, runOne);
  const copies = count / realCount;
  const earlier = (id: string, copy: number): string => {
    const dash = id.indexOf('-');
    const copiedAt = parseInt(id.slice(0, dash), 36) - (copies - copy + 1) * 1_000;
    return `${copiedAt.toString(36).padStart(9, '0')}${id.slice(dash)}`;
  };
  const rows: RowCopies = { realCount, copies, earlier };
  if (providerOf(store) === 'sqlite') copySqliteRows(store, rows);
  else await copyPostgresRows(store, rows);
}

async function runForReal(store: string, runOne: RunOne): Promise<void> {
  await using perdure = await Perdure.open(store, unsynced(store));
  await perdure.startWorker(definitions);
  await runInLanes(realCount, 64, async () => {
    await runOne(perdure.client);
  });
}
