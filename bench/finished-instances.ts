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

/** The instances to copy, and the number of copies. */
export interface RowCopies {
  readonly realCount: number;
  readonly copies: number;
  /** Ids begin with their time: the copies are in the past, in the order of their keys. */
  readonly earlier: (id: string, copy: number) => string;
}

/**
 * Fills a store with finished instances (default: hellos). A thousand really run; their rows are copied with new keys
 * and ids in time order, as generated ids are.
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
