import pg from 'pg';
import { countQueries, type QueryCount } from './query-count.ts';
import { msPerTick, readTicks } from './server-ticks.ts';

/** The average cost of one unit of work. */
export interface Cost {
  readonly statements: number;
  readonly roundTrips: number;
  readonly walBytes: number;
  /** CPU time of this process: the client and the worker. */
  readonly processCpuMs: number;
  /** CPU time of the server without autovacuum; absent if its processes are not visible. */
  readonly serverCpuMs?: number;
}

/** Measures the cost of work for this process and for its PostgreSQL server, which must have no other users. */
export class PostgresCost {
  readonly #client: pg.Client;
  readonly #sent: () => QueryCount;

  private constructor(client: pg.Client, sent: () => QueryCount) {
    this.#client = client;
    this.#sent = sent;
  }

  /** Open it before the store whose statements it counts. */
  static async open(url: string): Promise<PostgresCost> {
    const sent = countQueries();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return new PostgresCost(client, sent);
  }

  /** Runs `count` units of work. */
  async measure(count: number, work: () => Promise<unknown>): Promise<Cost> {
    const { pids, lsn } = await this.#look();
    const ticks = pids.map(readTicks);
    const cpu = process.cpuUsage();
    const sent = this.#sent();
    await work();
    const { statements, roundTrips } = this.#sent();
    const { user, system } = process.cpuUsage(cpu);
    // A connection that was closed meanwhile had been idle.
    const serverTicks = pids
      .map((pid, index) => readTicks(pid) - (ticks[index] ?? Number.NaN))
      .filter(Number.isFinite);
    const serverCpuMs = serverTicks.reduce((sum, each) => sum + each, 0) * msPerTick;
    const after = await this.#look();
    return {
      statements: (statements - sent.statements) / count,
      roundTrips: (roundTrips - sent.roundTrips) / count,
      walBytes: (after.lsn - lsn) / count,
      processCpuMs: (user + system) / 1_000 / count,
      ...(serverTicks.length > 0 && { serverCpuMs: serverCpuMs / count }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }

  /** The processes of the server and its WAL position. */
  async #look(): Promise<{ readonly pids: readonly number[]; readonly lsn: number }> {
    const { rows } = await this.#client.query<{ readonly pids: number[]; readonly lsn: string }>(
      `SELECT array_agg(pid) AS pids, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS lsn FROM pg_stat_activity
       WHERE backend_type <> 'autovacuum worker'`,
    );
    return { pids: rows[0]?.pids ?? [], lsn: Number(rows[0]?.lsn) };
  }
}
