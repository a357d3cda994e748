import type Database from 'better-sqlite3';
import { systemClock, type Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { Audit } from './tables/audit.ts';
import { ChunkRows } from './tables/chunk-rows.ts';
import { StreamRows } from './tables/stream-rows.ts';
import { AwakeableRows } from './tables/awakeable-rows.ts';
import { DatabaseFiles } from './driver/database-files.ts';
import { DedupeKeys, TaskItems, TaskRows } from './tables/task-rows.ts';
import { ChangeLog } from './wakeups/change-log.ts';
import { Definitions } from './tables/definitions.ts';
import { BeginLimits } from './limits/begin-limits.ts';
import { DueItems } from './queues/due-items.ts';
import { HintDelays, sinceWhen } from '../shared/hint-delays.ts';
import { Secrets } from '../shared/lock-token.ts';
import { EventKeys } from './tables/event-keys.ts';
import { ExecutionPrunes } from './deletion/execution-prunes.ts';
import { GroupCommit, type Fetch, type Scope, type StoreAccess } from './batches/group-commit.ts';
import { OpenTransactions } from './batches/open-transactions.ts';
import { History } from './tables/history.ts';
import { ParentChildQueries, InstanceScan } from './reading/management.ts';
import { InstanceLocks } from './tables/instance-locks.ts';
import { Inspection } from './reading/inspection.ts';
import { InstanceList } from './reading/instance-list.ts';
import { InstanceDeadlines } from './tables/instance-deadlines.ts';
import { MovedStarts } from './starts/moved-starts.ts';
import { DeletedStarts } from './starts/deleted-starts.ts';
import { StartKeys } from './starts/start-keys.ts';
import { InstanceHeaders } from './tables/instance-headers.ts';
import { InstanceState } from './tables/instance-state.ts';
import { InstanceTags } from './tables/instance-tags.ts';
import { InstanceRecords } from './reading/instance-records.ts';
import { InstanceRows, OutcomeUpdates } from './tables/instance-rows.ts';
import { InstanceStops } from './stopping/instance-stops.ts';
import { ItemCancels } from './tables/item-cancels.ts';
import { JobRows } from './jobs/job-rows.ts';
import { DeferredWrites } from './batches/deferred-writes.ts';
import { machineOf, parsePlan, StoreClock } from './driver/store-clock.ts';
import { LaneRows } from './limits/lane-rows.ts';
import { Lanes } from './limits/lanes.ts';
import { LimitReads } from './limits/limit-reads.ts';
import { LimitRows } from './limits/limit-rows.ts';
import { Messages } from './tables/messages.ts';
import { DefinitionQueues } from './reading/definition-queues.ts';
import { QueueDepthSlices } from './reading/queue-depths.ts';
import { Metrics } from './reading/metrics.ts';
import { PausedDefinitions, PauseRows } from './tables/pause-rows.ts';
import { Processes } from './queues/processes.ts';
import { Reclaims } from './deletion/reclaims.ts';
import { ReplacedRows } from './tables/replaced-rows.ts';
import { ReplacedTasks } from './tasks/replaced-tasks.ts';
import { RerunRows } from './reruns/rerun-rows.ts';
import { ScheduleRows } from './schedules/schedule-rows.ts';
import { SessionRows } from './jobs/session-rows.ts';
import { isBusy, toProviderError } from './driver/sqlite-errors.ts';
import { Series } from './queues/series.ts';
import { StopRows } from './tables/stop-rows.ts';
import { SystemRecords } from './tables/system-records.ts';
import { TaskRuns } from './tasks/task-runs.ts';
import { Tombstones } from './tables/tombstones.ts';
import { TreeDeletions } from './deletion/tree-deletions.ts';
import { Turns } from './instances/turns.ts';
import { UpdateRows } from './tables/update-rows.ts';
import { UnclaimedWorkFinder } from './reading/unclaimed-work.ts';
import { WakeUps, type WakeCause } from './wakeups/wake-ups.ts';
import { Views } from './reading/views.ts';
import { WorkItems } from './tables/work-items.ts';
import { WalGrowth } from './driver/wal-growth.ts';
import { Workers } from './queues/workers.ts';
import { delay, platform } from '../../model/platform.ts';

export interface StoreOptions {
  readonly db: Database.Database;
  readonly clock: Clock;
  readonly pollMs: number;
  readonly busyTimeoutMs: number;
  /** Default limit of a transaction of the application. */
  readonly transactionTimeoutMs?: number;
}

const defaultTransactionTimeoutMs = 5_000;
const clockRecord = 'clock';

/** The tables of a store, and the ways to write, read and wait. */
export class Store implements StoreAccess {
  readonly secrets = new Secrets();
  readonly definitions: Definitions;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly outcomeUpdates: OutcomeUpdates;
  readonly instanceTags: InstanceTags;
  readonly instanceHeaders: InstanceHeaders;
  readonly deadlines: InstanceDeadlines;
  readonly eventKeys: EventKeys;
  readonly startKeys: StartKeys;
  readonly deletedStarts: DeletedStarts;
  readonly movedStarts: MovedStarts;
  readonly replacedRows: ReplacedRows;
  readonly replacedTasks: ReplacedTasks;
  readonly instanceState: InstanceState;
  readonly instanceList: InstanceList;
  readonly instanceRecords: InstanceRecords;
  readonly beginLimits: BeginLimits;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly deferredWrites: DeferredWrites;
  readonly workItems: WorkItems;
  readonly dueItems: DueItems;
  readonly itemCancels: ItemCancels;
  readonly pauseRows: PauseRows;
  readonly pausedDefinitions: PausedDefinitions;
  readonly stopRows: StopRows;
  readonly limitReads: LimitReads;
  readonly limitRows: LimitRows;
  readonly laneRows: LaneRows;
  readonly lanes: Lanes;
  readonly taskItems: TaskItems;
  readonly taskRows: TaskRows;
  readonly dedupeKeys: DedupeKeys;
  readonly taskRuns: TaskRuns;
  readonly scheduleRows: ScheduleRows;
  readonly sessionRows: SessionRows;
  readonly jobRows: JobRows;
  readonly chunkRows: ChunkRows;
  readonly streamRows: StreamRows;
  readonly updateRows: UpdateRows;
  readonly awakeableRows: AwakeableRows;
  readonly stops: InstanceStops;
  readonly turns: Turns;
  readonly parentChild: ParentChildQueries;
  readonly tombstones: Tombstones;
  readonly reclaims: Reclaims;
  readonly audit: Audit;
  readonly rerunRows: RerunRows;
  readonly treeDeletions: TreeDeletions;
  readonly executionPrunes: ExecutionPrunes;
  readonly scan: InstanceScan;
  readonly metrics: Metrics;
  readonly definitionQueues: DefinitionQueues;
  readonly queueDepthSlices: QueueDepthSlices;
  readonly unclaimedWork: UnclaimedWorkFinder;
  readonly inspection: Inspection;
  readonly views: Views;
  readonly systemRecords: SystemRecords;
  readonly processes: Processes;
  readonly workers: Workers;
  readonly series: Series;
  readonly changeLog: ChangeLog;
  readonly wakeUps: WakeUps;
  readonly openTransactions: OpenTransactions;
  readonly #db: Database.Database;
  readonly #files: DatabaseFiles;
  readonly #walGrowth: WalGrowth;
  /** The clock for visibility, expiry and waits. */
  readonly clock: StoreClock;
  readonly #busyTimeoutMs: number;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #groupCommit: GroupCommit;
  readonly #delays: HintDelays;
  #closing: Promise<void> | undefined;

  constructor(options: StoreOptions) {
    const { db, clock, pollMs, busyTimeoutMs } = options;
    const { transactionTimeoutMs = defaultTransactionTimeoutMs } = options;
    this.#db = db;
    this.#files = new DatabaseFiles(db, () => this.wakeUps.wakeAll());
    this.#walGrowth = new WalGrowth(db);
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#delays = new HintDelays({ isEnabled: clock === systemClock });
    this.#begin = db.prepare('BEGIN');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.definitions = new Definitions(db);
    this.history = new History(db);
    this.instances = new InstanceRows(db);
    this.outcomeUpdates = new OutcomeUpdates(db);
    this.instanceTags = new InstanceTags(db);
    this.instanceHeaders = new InstanceHeaders(db);
    this.deadlines = new InstanceDeadlines(db);
    this.eventKeys = new EventKeys(db);
    this.startKeys = new StartKeys(db);
    this.deletedStarts = new DeletedStarts(db);
    this.movedStarts = new MovedStarts(db);
    this.replacedRows = new ReplacedRows(db);
    this.replacedTasks = new ReplacedTasks(db);
    this.instanceState = new InstanceState(db);
    this.instanceList = new InstanceList(db, this);
    this.instanceRecords = new InstanceRecords(db, this.definitions, this.instanceList);
    this.messages = new Messages(db);
    this.locks = new InstanceLocks(db, this.messages, this.secrets);
    this.deferredWrites = new DeferredWrites(this);
    this.workItems = new WorkItems(db, this.secrets);
    this.dueItems = new DueItems(db);
    this.itemCancels = new ItemCancels(db);
    this.pauseRows = new PauseRows(db);
    this.pausedDefinitions = new PausedDefinitions(db);
    this.stopRows = new StopRows(db);
    this.limitRows = new LimitRows(db);
    this.beginLimits = new BeginLimits(db, this);
    this.limitReads = new LimitReads(db, this);
    this.laneRows = new LaneRows(db);
    this.lanes = new Lanes(this);
    this.taskItems = new TaskItems(db);
    this.taskRows = new TaskRows(db);
    this.dedupeKeys = new DedupeKeys(db);
    this.taskRuns = new TaskRuns(this);
    this.scheduleRows = new ScheduleRows(db);
    this.sessionRows = new SessionRows(db);
    this.jobRows = new JobRows(db);
    this.chunkRows = new ChunkRows(db);
    this.streamRows = new StreamRows(db);
    this.updateRows = new UpdateRows(db);
    this.awakeableRows = new AwakeableRows(db);
    this.stops = new InstanceStops(this);
    this.turns = new Turns(this);
    this.parentChild = new ParentChildQueries(db);
    this.tombstones = new Tombstones(db);
    this.reclaims = new Reclaims(db, this.streamRows);
    this.audit = new Audit(db);
    this.rerunRows = new RerunRows(db);
    this.treeDeletions = new TreeDeletions(db, this);
    this.executionPrunes = new ExecutionPrunes(db, this);
    this.scan = new InstanceScan(db, this.definitions);
    this.metrics = new Metrics(db);
    this.definitionQueues = new DefinitionQueues(db, this.definitions);
    this.queueDepthSlices = new QueueDepthSlices(db);
    this.unclaimedWork = new UnclaimedWorkFinder(db, this.definitions);
    this.inspection = new Inspection(db, this);
    this.views = new Views(db, this.definitions);
    this.systemRecords = new SystemRecords(db);
    this.clock = new StoreClock(machineOf(clock), parsePlan(this.systemRecords.read(clockRecord)));
    this.processes = new Processes(db, this);
    this.workers = new Workers(db, this);
    this.series = new Series(db, this.definitions);
    const flaggedSince = (time: number, now: number) => [
      ...this.itemCancels.flaggedSince(time, now),
      ...this.tombstones.since(time, now).map((lockToken) => ({ lockToken })),
    ];
    this.changeLog = new ChangeLog(db);
    const { changeLog } = this;
    const onPoll = (): void => void this.#files.replacedError('poll', platform.monotonic());
    this.wakeUps = new WakeUps({ db, clock: this.clock, pollMs, changeLog, flaggedSince, onPoll });
    this.#groupCommit = new GroupCommit({
      db,
      clock: this.clock,
      definitions: this.definitions,
      deferredWrites: this.deferredWrites,
      busyTimeoutMs,
      onStep: () => this.#shareClock(),
      onSetBack: (scope) => this.#showHidden(scope),
      storeError: (operation) => this.#files.replacedError(operation, platform.monotonic()),
      beforeCommit: ({ effects, now }) => {
        // A freed place ends the waits of workers for limited definitions.
        if (this.limitRows.hasFreed()) {
          effects.due('work', now);
          effects.due('orchestrations', now);
        }
        changeLog.write(effects, now);
      },
      onCommitted: (effects) => {
        changeLog.confirm();
        this.wakeUps.announce(effects);
        this.#walGrowth.committed();
      },
    });
    this.openTransactions = new OpenTransactions({
      db,
      groupCommit: this.#groupCommit,
      timeoutMs: transactionTimeoutMs,
      busyTimeoutMs,
    });
  }

  now(): number {
    return this.clock.now();
  }

  /** Makes all processes absorb a step of the machine's clock in the same way. Call it in a transaction. */
  #shareClock(): void {
    const stored = parsePlan(this.systemRecords.read(clockRecord));
    const plan = this.clock.agree(stored);
    if (plan !== undefined) this.systemRecords.write(clockRecord, JSON.stringify(plan));
  }

  /** Makes messages visible and lanes ready again that a clock set back has hidden. */
  #showHidden(scope: Scope): void {
    const { now, effects } = scope;
    if (this.limitRows.isAny(scope)) this.laneRows.wakeAll();
    const instanceKeys = this.messages.showHidden(now);
    for (const instanceKey of instanceKeys) this.locks.refresh(instanceKey);
    if (instanceKeys.size > 0) effects.due('orchestrations', now);
  }

  assertOpen(operation: string): void {
    if (this.#closing === undefined) return;
    throw new PerdureError(
      'CLOSED',
      `${operation}: the store is closed. Open it again, or close it after the last operation.`,
    );
  }

  write<Item, Result>(
    operation: string,
    items: readonly Item[],
    work: (scope: Scope, item: Item) => Result,
  ): Promise<readonly Result[]> {
    if (items.length === 0 && this.#closing === undefined) return Promise.resolve([]);
    const [only] = items;
    return this.writeOnce(
      operation,
      items.length === 1
        ? (scope) => [work(scope, only as Item)]
        : (scope) => items.map((item) => work(scope, item)),
    );
  }

  // Not async: a promise that an async function returns settles three microtasks later.
  writeOnce<T>(operation: string, work: (scope: Scope) => T): Promise<T> {
    try {
      this.assertOpen(operation);
      this.openTransactions.assertOutside(operation);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
    return this.#groupCommit.run(operation, work);
  }

  /**
   * Runs a read immediately, in one snapshot. Retries while another connection holds a lock.
   * The transaction halves the time per row, because SQLite locks the file once.
   */
  async read<T>(operation: string, work: () => T): Promise<T> {
    const now = platform.monotonic();
    const deadline = now + this.#busyTimeoutMs;
    for (;;) {
      this.assertOpen(operation);
      const replaced = this.#files.replacedError(operation, now);
      if (replaced !== undefined) throw replaced;
      try {
        return this.#snapshot(work);
      } catch (error) {
        if (!isBusy(error) || platform.monotonic() > deadline)
          throw toProviderError(operation, error);
        await delay(platform.random() * 10);
      }
    }
  }

  #snapshot<T>(work: () => T): T {
    // A transaction of the application is open. It holds the write lock, so its snapshot is the newest state.
    if (this.#db.inTransaction) return work();
    this.#begin.run();
    try {
      const value = work();
      this.#commit.run();
      return value;
    } catch (error) {
      if (this.#db.inTransaction) this.#rollback.run();
      throw error;
    }
  }

  async fetch<T>(fetch: Fetch<T>): Promise<readonly T[]> {
    const { operation, topic, key, max, waitMs, signal, claim } = fetch;
    this.assertOpen(operation);
    if (max < 1) return [];
    const deadline = this.clock.monotonic() + waitMs;
    let cause: WakeCause = 'none';
    let dueSince = Infinity;
    for (let reads = 0; ; reads++) {
      // Read without the write lock, so that an idle worker never writes. No commit can be missed before the wait:
      // no other code of this process runs meanwhile, and `data_version` shows commits of others.
      const now = this.now();
      const leftMs = deadline - this.clock.monotonic();
      // Woken too late: the caller no longer waits for work.
      if (reads > 0 && leftMs < 0) return [];
      const nextAt = await this.#readNextAt(fetch, now);
      if (signal?.aborted === true || this.#closing !== undefined) return [];
      const delayMs = leftMs <= 0 || cause === 'own' ? 0 : this.#delays.get(key);
      dueSince = sinceWhen({ nextAt, now, before: dueSince });
      if (dueSince + delayMs <= now || this.clock.wasSetBack) {
        const claimed = await this.#groupCommit.run(operation, claim);
        if (claimed.length > 0) this.#delays.found(key);
        else if (cause === 'foreign') this.#delays.missed(key);
        if (claimed.length > 0 || leftMs <= 0) return claimed;
      } else if (leftMs <= 0) return [];
      else {
        const until = Math.min(now + leftMs, Math.min(nextAt, dueSince) + delayMs);
        cause = await this.wakeUps.wait({ topic, until, signal });
      }
    }
  }

  async #readNextAt({ operation, nextAt, signal }: Fetch<unknown>, now: number): Promise<number> {
    if (signal?.aborted === true || this.#closing !== undefined) return Infinity;
    return this.read(operation, () => nextAt(now));
  }

  /** Drains the commits, ends the waits and closes the file. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // `#closing` is set before the next microtask, so that woken fetches end.
    await Promise.resolve();
    this.wakeUps.close();
    await this.#groupCommit.drain();
    this.#walGrowth.close();
    this.#db.close();
  }
}
