import type { Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { Audit } from './deletion/audit.ts';
import { Batching, type BatchWork } from './batches/batching.ts';
import { Changes, type Batch } from './batches/changes.ts';
import { ChunkRows } from './jobs/streams.ts';
import { DedupeKeys } from './tables/dedupe-keys.ts';
import type { Connections, Statement, Transaction } from './driver/connection.ts';
import { Definitions } from './tables/definitions.ts';
import { DueInstances } from './queues/orchestration-queue.ts';
import { DueItems } from './queues/due-items.ts';
import { ExecutionPrunes } from './deletion/execution-prunes.ts';
import { fetchDue, type Fetch, type FetchSource } from './wakeups/fetching.ts';
import { History } from './tables/history.ts';
import { Secrets } from '../shared/lock-token.ts';
import { InstanceFamily, InstanceScan } from './reading/management.ts';
import { InstanceLocks } from './tables/instance-locks.ts';
import { Inspection } from './reading/inspection.ts';
import { InstanceRecords } from './reading/instance-records.ts';
import { InstanceRows } from './tables/instance-rows.ts';
import { InstanceStops } from './stopping/cancellation.ts';
import { ItemCancels } from './tables/item-cancels.ts';
import { JobRows } from './jobs/job-rows.ts';
import { InstanceMutexes, LockedInstances } from './batches/locked-instances.ts';
import { Messages } from './tables/messages.ts';
import { Metrics } from './reading/metrics.ts';
import { Look, NextDue, type Found, type Wanted } from './wakeups/due-query.ts';
import { nowParameter, Scope } from './driver/scope.ts';
import type { StoreClock } from './driver/store-clock.ts';
import { PlainAbandons } from './single-statement/job-abandons.ts';
import { PlainClaims } from './single-statement/work-claims.ts';
import { PlainStarts } from './single-statement/starts.ts';
import { PlainTaskAcks } from './single-statement/task-acks.ts';
import { PlainTasks } from './single-statement/task-creation.ts';
import { PlainTurns } from './single-statement/turn-acks.ts';
import { Processes } from './queues/processes.ts';
import { Reclaims } from './deletion/reclaims.ts';
import { ScheduleRows } from './schedules/schedules.ts';
import { SessionRows } from './jobs/session-rows.ts';
import { StopRows } from './tables/stop-rows.ts';
import { SystemRecords } from './tables/system-records.ts';
import { TaskRows } from './tables/task-rows.ts';
import { Tombstones } from './tables/tombstones.ts';
import { TreeDeletions } from './deletion/tree-deletions.ts';
import { Turns } from './instances/turns.ts';
import type { WakeUps } from './wakeups/wake-ups.ts';
import { UnclaimedWorkFinder } from './reading/unclaimed-work.ts';
import { WorkItems } from './tables/work-items.ts';

export interface StoreOptions {
  readonly connections: Connections;
  /** Makes what wakes waiting fetches, from the way to look for them. */
  readonly wakeUps: (look: (flaggedSince: number) => Promise<Found>) => WakeUps;
  /** The database's clock, as it is known here. */
  readonly storeClock: StoreClock;
  /** As it is written into statements. */
  readonly quotedSchema: string;
  /** Decides instead of the database's clock. */
  readonly clock: Clock | undefined;
  /** How often somebody looks, while somebody waits. */
  readonly pollMs: number;
}

/** What the capabilities share: the tables, and the ways to write and read. */
export class Store {
  readonly secrets = new Secrets();
  readonly schema: string;
  readonly definitions: Definitions;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly instanceRecords: InstanceRecords;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly workItems: WorkItems;
  readonly itemCancels: ItemCancels;
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly taskRows: TaskRows;
  readonly dedupeKeys: DedupeKeys;
  readonly turns: Turns;
  readonly plainStarts: PlainStarts;
  readonly plainTurns: PlainTurns;
  readonly plainTasks: PlainTasks;
  readonly plainTaskAcks: PlainTaskAcks;
  readonly plainAbandons: PlainAbandons;
  readonly plainClaims: PlainClaims;
  readonly scheduleRows: ScheduleRows;
  readonly nextSchedule: NextDue;
  readonly nextSession: NextDue;
  readonly sessionRows: SessionRows;
  readonly jobRows: JobRows;
  readonly chunkRows: ChunkRows;
  readonly dueInstances: DueInstances;
  readonly dueItems: DueItems;
  readonly family: InstanceFamily;
  readonly scan: InstanceScan;
  readonly metrics: Metrics;
  readonly unclaimedWork: UnclaimedWorkFinder;
  readonly inspection: Inspection;
  readonly audit: Audit;
  readonly reclaims: Reclaims;
  readonly tombstones: Tombstones;
  readonly treeDeletions: TreeDeletions;
  readonly executionPrunes: ExecutionPrunes;
  readonly systemRecords: SystemRecords;
  readonly processes: Processes;
  readonly wakeUps: WakeUps;
  readonly connections: Connections;
  readonly clock: Clock | undefined;
  readonly #mutexes: InstanceMutexes;
  readonly #look: Look;
  readonly #storeClock: StoreClock;
  /** What there was plenty of at the last look. */
  readonly #busy = new Set<string>();
  readonly #waiting = new Set<Fetch<unknown>>();
  readonly #batchings: { drain(): Promise<void> }[] = [];
  readonly #writings = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(options: StoreOptions) {
    const { connections, wakeUps, storeClock, quotedSchema: schema, clock, pollMs } = options;
    this.schema = schema;
    this.connections = connections;
    this.clock = clock;
    this.#storeClock = storeClock;
    this.#look = new Look(schema);
    this.definitions = new Definitions(schema);
    this.history = new History(schema);
    this.instances = new InstanceRows(schema);
    this.instanceRecords = new InstanceRecords(schema, this.definitions);
    this.messages = new Messages(schema);
    this.locks = new InstanceLocks(schema);
    this.workItems = new WorkItems(schema, this.secrets);
    this.itemCancels = new ItemCancels(schema);
    this.stopRows = new StopRows(schema);
    this.taskRows = new TaskRows(schema);
    this.dedupeKeys = new DedupeKeys(schema);
    this.stops = new InstanceStops(this);
    this.turns = new Turns(this);
    this.plainStarts = new PlainStarts(this);
    this.plainTurns = new PlainTurns(this);
    this.plainTasks = new PlainTasks(this);
    this.plainTaskAcks = new PlainTaskAcks(this);
    this.plainAbandons = new PlainAbandons(this);
    this.plainClaims = new PlainClaims(this);
    this.scheduleRows = new ScheduleRows(schema);
    const foretelling = { clock: clock ?? storeClock, maxAgeMs: 1.5 * pollMs };
    this.nextSchedule = new NextDue(foretelling);
    this.nextSession = new NextDue(foretelling);
    this.sessionRows = new SessionRows(schema);
    this.jobRows = new JobRows(schema);
    this.chunkRows = new ChunkRows(schema);
    this.dueInstances = new DueInstances(schema);
    this.dueItems = new DueItems(this);
    this.family = new InstanceFamily(schema);
    this.scan = new InstanceScan(schema, this.definitions);
    this.metrics = new Metrics(schema);
    this.unclaimedWork = new UnclaimedWorkFinder(schema);
    this.inspection = new Inspection(schema, this.definitions);
    this.audit = new Audit(schema);
    this.reclaims = new Reclaims(schema);
    this.tombstones = new Tombstones(schema);
    this.treeDeletions = new TreeDeletions(this);
    this.executionPrunes = new ExecutionPrunes(this);
    this.systemRecords = new SystemRecords(this);
    this.processes = new Processes(this);
    this.#mutexes = new InstanceMutexes(schema);
    this.wakeUps = wakeUps((flaggedSince) => this.#lookForAll(flaggedSince));
  }

  /** Whether the store takes no more calls. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** The first parameter of reads that compare with the clock. */
  get nowParameter(): number | null {
    return nowParameter(this.clock);
  }

  /** Throws once the store is closed. */
  assertOpen(operation: string): void {
    if (this.#closing === undefined) return;
    throw new PerdureError(
      'CLOSED',
      `${operation}: the store is closed. Open it again, or close it later.`,
    );
  }

  /** Makes a kind of write whose calls share transactions. */
  batching<Item, Result>(
    work: BatchWork<Item, Result>,
  ): (items: readonly Item[]) => Promise<readonly Result[]> {
    const announce = this.wakeUps.announce.bind(this.wakeUps);
    const { connections, clock } = this;
    const batching = new Batching({ connections, clock, announce }, work);
    this.#batchings.push(batching);
    return async (items) => {
      this.assertOpen(work.operation);
      return items.length === 0 ? [] : batching.run(items);
    };
  }

  /** What a batch needs, with nothing locked yet. */
  newBatch(scope: Scope): Batch {
    return {
      scope,
      instances: new LockedInstances(this.#mutexes, scope.tx),
      changes: new Changes(),
    };
  }

  /** Reads on one connection, without a transaction. */
  async read<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    this.assertOpen(operation);
    return this.connections.read(operation, work);
  }

  /** Runs one statement that is its own transaction. */
  async statement<Row extends object>(
    operation: string,
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    this.assertOpen(operation);
    return this.connections.statement<Row>(operation, statement, values);
  }

  /** Writes in a transaction of its own. */
  async writeOnce<T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T> {
    this.assertOpen(operation);
    const writing = this.#writeOnce(operation, work);
    this.#writings.add(writing);
    try {
      return await writing;
    } finally {
      this.#writings.delete(writing);
    }
  }

  /** Claims in one transaction; the claimers are told apart by their tokens, so nothing is shared here. */
  claim<T>(
    operation: string,
    work: (scope: Scope) => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    return this.#writeOnce(operation, work);
  }

  /** Learns from the time that a statement has read, which was sent at a monotonic time or later. */
  observe(nowMs: number, sentAt: number): void {
    if (this.clock === undefined) this.#storeClock.observe(nowMs, sentAt);
  }

  /** The monotonic clock, for `observe`. */
  monotonic(): number {
    return this.#storeClock.monotonic();
  }

  async #writeOnce<T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T> {
    const sentAt = this.monotonic();
    const { scope, value } = await this.connections.transaction(operation, async (tx) => {
      const scope = new Scope(tx, this.clock);
      return { scope, value: await work(scope) };
    });
    scope.committed();
    if (scope.readAt !== undefined) this.observe(scope.readAt, sentAt);
    this.wakeUps.announce(scope.effects);
    return value;
  }

  /** Claims what is due, or waits for it. */
  async fetch<T>(fetch: Fetch<T>): Promise<readonly T[]> {
    this.assertOpen(fetch.operation);
    return fetch.max < 1 ? [] : fetchDue(this.#fetchSource, fetch);
  }

  get #fetchSource(): FetchSource {
    const isClosing = (): boolean => this.isClosing;
    return {
      clock: this.clock ?? this.#storeClock,
      get isClosing() {
        return isClosing();
      },
      changes: (topic) => this.wakeUps.changes(topic),
      isBusy: (fetch) => this.#busy.has(keyOf(fetch)),
      setBusy: (fetch, isBusy) => {
        if (isBusy) this.#busy.add(keyOf(fetch));
        else this.#busy.delete(keyOf(fetch));
      },
      resume: (fetch) => this.wakeUps.resume(keyOf(fetch)),
      rest: (fetch, rest) => this.wakeUps.rest(keyOf(fetch), rest),
      look: async ({ operation, topic, wanted }) => {
        const { now, nextAt } = await this.#lookFor(operation, wanted);
        return { now, nextAt: nextAt[topic] };
      },
      wait: async ({ fetch, ...wait }) => {
        this.#waiting.add(fetch);
        await this.wakeUps.wait({ topic: fetch.topic, ...wait });
        this.#waiting.delete(fetch);
      },
    };
  }

  async #lookFor(operation: string, wanted: Wanted, flaggedSince?: number): Promise<Found> {
    const marks = { schedule: this.nextSchedule.mark(), session: this.nextSession.mark() };
    const sentAt = this.#storeClock.monotonic();
    const found = await this.connections.read(operation, (tx) =>
      this.#look.run(tx, wanted, {
        nowParameter: this.nowParameter,
        ...(flaggedSince !== undefined && { flaggedSince }),
      }),
    );
    this.observe(found.now, sentAt);
    this.nextSchedule.saw(marks.schedule, found.nextScheduleAt, found.now);
    this.nextSession.saw(marks.session, found.nextSessionAt, found.now);
    return found;
  }

  /** One look for all that wait. */
  #lookForAll(flaggedSince: number): Promise<Found> {
    const all = Array.from(this.#waiting, ({ wanted }) => wanted);
    const wanted: Wanted = {
      runnable: together(all.map(({ runnable }) => runnable)),
      buildId: all.find(({ buildId }) => buildId !== undefined)?.buildId,
      names: together(all.map(({ names }) => names)),
      tasks: together(all.map(({ tasks }) => tasks)),
    };
    return this.#lookFor('poll', wanted, flaggedSince);
  }

  /** Finishes what was begun, ends the waits, closes the connections. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // In the next microtask `closing` is set, so that woken fetches end.
    await Promise.resolve();
    await Promise.all(this.#batchings.map((batching) => batching.drain()));
    await Promise.allSettled(this.#writings);
    await this.wakeUps.close();
    await this.connections.close();
  }
}

/** Fetches that wait for the same have the same key. */
function keyOf({ topic, wanted }: Fetch<unknown>): string {
  return JSON.stringify([topic, wanted]);
}

/** All that is in one of the lists; anything, where one of them is missing. */
function together<T>(lists: readonly (readonly T[] | undefined)[]): readonly T[] | undefined {
  return lists.includes(undefined) ? undefined : lists.flatMap((some) => some ?? []);
}
