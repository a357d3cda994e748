import type { Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { RerunRows } from './reruns/rerun-rows.ts';
import type { ApplicationTransactions } from './driver/application-transactions.ts';
import { Audit } from './tables/audit.ts';
import { AwakeableRows } from './tables/awakeable-rows.ts';
import { UpdateRows } from './tables/update-rows.ts';
import { Batching, type BatchWork } from './batches/batching.ts';
import { Changes, InstanceMutexes, LockedInstances, type Batch } from './batches/batch.ts';
import { ChunkRows } from './tables/chunk-rows.ts';
import { StreamRows } from './tables/stream-rows.ts';
import { DedupeKeys } from './tables/dedupe-keys.ts';
import type { Connections, Statement, Transaction } from './driver/connection.ts';
import { Definitions } from './tables/definitions.ts';
import { DueInstances } from './queues/due-instances.ts';
import { DueItems } from './queues/item-claims.ts';
import { EventKeys } from './tables/event-keys.ts';
import { ReplacedRows } from './tables/replaced-rows.ts';
import { ReplacedTasks } from './tasks/replaced-tasks.ts';
import { ExecutionPrunes } from './deletion/execution-prunes.ts';
import { Fetching, type Fetch, type QueueAccess } from './wakeups/fetching.ts';
import type { Effects, Topic } from '../shared/effects.ts';
import { History } from './tables/history.ts';
import { Secrets } from '../shared/lock-token.ts';
import { InstanceScan, ParentChildQueries } from './deletion/management.ts';
import { InstanceLocks } from './tables/instance-locks.ts';
import { Inspection } from './reading/inspection.ts';
import { InstanceList } from './reading/instance-list.ts';
import { LimitedDefinitions } from './batches/limited-definitions.ts';
import { BeginLimits } from './limits/begin-limits.ts';
import { FirstBeginLimits } from './limits/first-begin-limits.ts';
import { LimitRows } from './limits/limit-rows.ts';
import { LimitTriggers } from './limits/limit-triggers.ts';
import { LimitViews } from './limits/limit-views.ts';
import { InstanceDeadlines } from './tables/instance-deadlines.ts';
import { MovedStarts } from './starts/moved-starts.ts';
import { DeletedStarts } from './starts/deleted-starts.ts';
import { StartKeys } from './starts/start-keys.ts';
import { InstanceHeaders } from './tables/instance-headers.ts';
import { InstanceState } from './tables/instance-state.ts';
import { InstanceTags } from './tables/instance-tags.ts';
import { InstanceRecords } from './reading/instance-records.ts';
import { InstanceRows } from './tables/instance-rows.ts';
import { InstanceStops } from './stopping/instance-stops.ts';
import { ItemCancels } from './tables/item-cancels.ts';
import { JobRows } from './jobs/job-rows.ts';
import { Messages } from './tables/messages.ts';
import { DefinitionQueues } from './reading/definition-queues.ts';
import { Metrics } from './reading/metrics.ts';
import { DueQuery, NextDueCache, type DueTimes, type Wanted } from './wakeups/due-query.ts';
import { nowParameter, Scope } from './driver/scope.ts';
import type { StoreClock } from './driver/store-clock.ts';
import { SingleStatementAbandons } from './single-statement/job-abandons.ts';
import {
  SingleStatementClaims,
  SingleStatementTaskAcks,
  SingleStatementTaskCreation,
} from './single-statement/tasks.ts';
import { SingleStatementPendingStarts } from './single-statement/pending-starts.ts';
import { SingleStatementStarts } from './single-statement/starts.ts';
import { SingleStatementCancels } from './single-statement/cancel-requests.ts';
import { SingleStatementCanceledTurns } from './single-statement/canceled-turns.ts';
import { SingleStatementClaimedTurns } from './single-statement/claimed-turns.ts';
import { SingleStatementInstanceClaims } from './single-statement/instance-claims.ts';
import { SingleStatementKeptTurns } from './single-statement/kept-turns.ts';
import { SingleStatementTurnAcks } from './single-statement/turn-acks.ts';
import { Processes } from './queues/processes.ts';
import { Reclaims } from './deletion/reclaims.ts';
import { ScheduleRows } from './schedules/schedule-rows.ts';
import { SessionRows } from './jobs/session-rows.ts';
import { PauseRows } from './tables/pause-rows.ts';
import { Series } from './queues/series.ts';
import { StopRows } from './tables/stop-rows.ts';
import { SystemRecords } from './tables/system-records.ts';
import { TaskRows } from './tables/task-rows.ts';
import { Tombstones } from './tables/tombstones.ts';
import { TreeDeletions } from './deletion/tree-deletions.ts';
import { startIdentified } from './instances/instances.ts';
import { Turns } from './instances/turns.ts';
import type { WakeUps, WakeUpsOptions } from './wakeups/wake-ups.ts';
import { UnclaimedWorkFinder } from './reading/unclaimed-work.ts';
import { Views } from './reading/views.ts';
import { WorkItems } from './tables/work-items.ts';
import { Workers } from './queues/workers.ts';

export interface StoreOptions {
  readonly connections: Connections;
  readonly applicationTransactions: ApplicationTransactions;
  /** Creates the wake-ups, given the query that they poll with. */
  readonly wakeUps: (parts: Pick<WakeUpsOptions, 'query' | 'isWanted'>) => WakeUps;
  /** The estimated clock of the database. */
  readonly storeClock: StoreClock;
  /** The schema, quoted for SQL. */
  readonly quotedSchema: string;
  /** Replaces the database clock. */
  readonly clock: Clock | undefined;
  /** Polling interval. */
  readonly pollMs: number;
}

/** The tables of a store, and the ways to read and write them. Each operation takes the part that it needs. */
export class Store implements QueueAccess {
  readonly secrets = new Secrets();
  readonly schema: string;
  readonly definitions: Definitions;
  readonly limited = new LimitedDefinitions();
  readonly beginLimits: BeginLimits;
  readonly firstBeginLimits: FirstBeginLimits;
  readonly limitRows: LimitRows;
  readonly limitTriggers: LimitTriggers;
  readonly limitViews: LimitViews;
  readonly history: History;
  readonly instances: InstanceRows;
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
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly workItems: WorkItems;
  readonly itemCancels: ItemCancels;
  readonly pauseRows: PauseRows;
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly taskRows: TaskRows;
  readonly dedupeKeys: DedupeKeys;
  readonly turns: Turns;
  readonly singleStatementStarts: SingleStatementStarts;
  readonly singleStatementPendingStarts: SingleStatementPendingStarts;
  readonly singleStatementTurnAcks: SingleStatementTurnAcks;
  readonly singleStatementInstanceClaims: SingleStatementInstanceClaims;
  readonly singleStatementClaimedTurns: SingleStatementClaimedTurns;
  readonly singleStatementCanceledTurns: SingleStatementCanceledTurns;
  readonly singleStatementCancels: SingleStatementCancels;
  readonly singleStatementKeptTurns: SingleStatementKeptTurns;
  readonly singleStatementTaskCreation: SingleStatementTaskCreation;
  readonly singleStatementTaskAcks: SingleStatementTaskAcks;
  readonly singleStatementAbandons: SingleStatementAbandons;
  readonly singleStatementClaims: SingleStatementClaims;
  readonly scheduleRows: ScheduleRows;
  readonly nextSchedule: NextDueCache;
  readonly nextSession: NextDueCache;
  readonly sessionRows: SessionRows;
  readonly jobRows: JobRows;
  readonly chunkRows: ChunkRows;
  readonly streamRows: StreamRows;
  readonly updateRows: UpdateRows;
  readonly awakeableRows: AwakeableRows;
  readonly dueInstances: DueInstances;
  readonly dueItems: DueItems;
  readonly parentChild: ParentChildQueries;
  readonly scan: InstanceScan;
  readonly metrics: Metrics;
  readonly definitionQueues: DefinitionQueues;
  readonly unclaimedWork: UnclaimedWorkFinder;
  readonly inspection: Inspection;
  readonly views: Views;
  readonly audit: Audit;
  readonly rerunRows: RerunRows;
  readonly reclaims: Reclaims;
  readonly tombstones: Tombstones;
  readonly treeDeletions: TreeDeletions;
  readonly executionPrunes: ExecutionPrunes;
  readonly systemRecords: SystemRecords;
  readonly processes: Processes;
  readonly workers: Workers;
  readonly series: Series;
  readonly wakeUps: WakeUps;
  readonly connections: Connections;
  readonly applicationTransactions: ApplicationTransactions;
  readonly clock: Clock | undefined;
  readonly #mutexes: InstanceMutexes;
  readonly #dueQuery: DueQuery;
  readonly #fetching: Fetching;
  readonly #storeClock: StoreClock;
  readonly #batchings: { drain(): Promise<void> }[] = [];
  readonly #writings = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(options: StoreOptions) {
    const { connections, wakeUps, storeClock, quotedSchema: schema, clock, pollMs } = options;
    this.schema = schema;
    this.connections = connections;
    this.applicationTransactions = options.applicationTransactions;
    this.clock = clock;
    this.#storeClock = storeClock;
    this.#dueQuery = new DueQuery(schema);
    this.definitions = new Definitions(schema);
    this.beginLimits = new BeginLimits(schema);
    this.firstBeginLimits = new FirstBeginLimits(this);
    this.limitRows = new LimitRows(this);
    this.limitTriggers = new LimitTriggers(this);
    this.limitViews = new LimitViews(schema);
    this.history = new History(schema);
    this.instances = new InstanceRows(schema);
    this.instanceTags = new InstanceTags(schema);
    this.instanceHeaders = new InstanceHeaders(schema);
    this.deadlines = new InstanceDeadlines(schema);
    this.eventKeys = new EventKeys(schema);
    this.startKeys = new StartKeys(schema);
    this.deletedStarts = new DeletedStarts(schema);
    this.movedStarts = new MovedStarts(schema);
    this.replacedRows = new ReplacedRows(schema);
    this.replacedTasks = new ReplacedTasks(schema);
    this.instanceState = new InstanceState(schema);
    this.unclaimedWork = new UnclaimedWorkFinder(schema);
    this.instanceList = new InstanceList(schema, this.unclaimedWork);
    this.instanceRecords = new InstanceRecords(schema, this.definitions, this.instanceList);
    this.messages = new Messages(schema);
    this.locks = new InstanceLocks(schema);
    this.workItems = new WorkItems(schema, this.secrets);
    this.itemCancels = new ItemCancels(schema);
    this.pauseRows = new PauseRows(schema);
    this.stopRows = new StopRows(schema);
    this.taskRows = new TaskRows(schema);
    this.dedupeKeys = new DedupeKeys(schema);
    this.updateRows = new UpdateRows(schema);
    this.awakeableRows = new AwakeableRows(schema);
    this.stops = new InstanceStops(this);
    this.turns = new Turns(this, startIdentified(this));
    this.singleStatementStarts = new SingleStatementStarts(this);
    this.singleStatementPendingStarts = new SingleStatementPendingStarts(this);
    this.singleStatementTurnAcks = new SingleStatementTurnAcks(this);
    this.singleStatementInstanceClaims = new SingleStatementInstanceClaims(this);
    this.singleStatementClaimedTurns = new SingleStatementClaimedTurns(this);
    this.singleStatementCanceledTurns = new SingleStatementCanceledTurns(this);
    this.singleStatementCancels = new SingleStatementCancels(this);
    this.singleStatementKeptTurns = new SingleStatementKeptTurns(this);
    this.singleStatementTaskCreation = new SingleStatementTaskCreation(this);
    this.singleStatementTaskAcks = new SingleStatementTaskAcks(this);
    this.singleStatementAbandons = new SingleStatementAbandons(this);
    this.singleStatementClaims = new SingleStatementClaims(this);
    this.scheduleRows = new ScheduleRows(schema);
    const caching = { clock: clock ?? storeClock, maxAgeMs: 1.5 * pollMs };
    this.nextSchedule = new NextDueCache(caching);
    this.nextSession = new NextDueCache(caching);
    this.sessionRows = new SessionRows(schema);
    this.jobRows = new JobRows(schema);
    this.chunkRows = new ChunkRows(schema);
    this.streamRows = new StreamRows(schema);
    this.dueInstances = new DueInstances(schema);
    this.dueItems = new DueItems(this);
    this.parentChild = new ParentChildQueries(schema);
    this.scan = new InstanceScan(schema, this.definitions);
    this.metrics = new Metrics(schema);
    this.definitionQueues = new DefinitionQueues(schema);
    this.inspection = new Inspection(schema, this);
    this.views = new Views(schema, this.definitions);
    this.audit = new Audit(schema);
    this.rerunRows = new RerunRows(schema);
    this.reclaims = new Reclaims(schema, this.streamRows);
    this.tombstones = new Tombstones(schema);
    this.treeDeletions = new TreeDeletions(this);
    this.executionPrunes = new ExecutionPrunes(this);
    this.systemRecords = new SystemRecords(this);
    this.processes = new Processes(this);
    this.workers = new Workers(this);
    this.series = new Series(schema, this.definitions);
    this.#mutexes = new InstanceMutexes(schema);
    this.wakeUps = wakeUps({
      query: (flaggedSince) => this.#queryDue('poll', this.#fetching.waitingFor, flaggedSince),
      isWanted: (topic, keys) => this.#isWanted(topic, keys),
    });
    this.#fetching = new Fetching({
      clock: clock ?? storeClock,
      isClockReal: clock === undefined,
      wakeUps: this.wakeUps,
      isClosing: () => this.#closing !== undefined,
      dueTimes: (operation, wanted) => this.#queryDue(operation, wanted),
    });
  }

  get nowParameter(): number | null {
    return nowParameter(this.clock);
  }

  assertOpen(operation: string): void {
    if (this.#closing === undefined) return;
    throw new PerdureError(
      'CLOSED',
      `${operation}: the store is closed. Open it again, or close it after the last call.`,
    );
  }

  batching<Item, Result>(
    work: BatchWork<Item, Result>,
  ): (items: readonly Item[]) => Promise<readonly Result[]> {
    const announce = this.#announce.bind(this);
    const { connections, clock } = this;
    const batching = new Batching({ connections, clock, announce }, work);
    this.#batchings.push(batching);
    return async (items) => {
      this.assertOpen(work.operation);
      return items.length === 0 ? [] : batching.run(items);
    };
  }

  newBatch(scope: Scope): Batch {
    return {
      scope,
      instances: new LockedInstances(this.#mutexes, scope.tx),
      changes: new Changes(),
    };
  }

  async read<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    this.assertOpen(operation);
    return this.connections.read(operation, work);
  }

  async statement<Row extends object>(
    operation: string,
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    this.assertOpen(operation);
    return this.connections.statement<Row>(operation, statement, values);
  }

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

  claim<T>(
    operation: string,
    work: (scope: Scope) => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    return this.#writeOnce(operation, work);
  }

  claimed({ topic, now, sentAt, leaseEnd }: Parameters<QueueAccess['claimed']>[0]): void {
    this.#observe(now, sentAt);
    this.wakeUps.announceClaim(topic, leaseEnd);
  }

  /** The store's time as this process estimates it. */
  get estimatedNow(): number {
    return (this.clock ?? this.#storeClock).now();
  }

  monotonic(): number {
    return this.#storeClock.monotonic();
  }

  /** Sends the notifications of a transaction that the caller has committed. */
  committed(scope: Scope): void {
    scope.committed();
    this.#announce(scope.effects);
  }

  #announce(effects: Effects): void {
    this.beginLimits.wake({ effects });
    this.wakeUps.announce(effects);
  }

  async #writeOnce<T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T> {
    const sentAt = this.monotonic();
    const { scope, value } = await this.connections.transaction(operation, async (tx) => {
      const scope = new Scope(tx, this.clock);
      return { scope, value: await work(scope) };
    });
    scope.committed();
    if (scope.readAt !== undefined) this.#observe(scope.readAt, sentAt);
    this.#announce(scope.effects);
    return value;
  }

  async fetch<T>(fetch: Fetch<T>): Promise<readonly T[]> {
    this.assertOpen(fetch.operation);
    return fetch.max < 1 ? [] : this.#fetching.fetch(fetch);
  }

  /** Finishes the writes in progress, ends all waits, and closes the connections. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // `#closing` is set in the next microtask, so that woken fetches end.
    await Promise.resolve();
    await Promise.all(this.#batchings.map((batching) => batching.drain()));
    await Promise.allSettled(this.#writings);
    await this.applicationTransactions.close();
    await this.wakeUps.close();
    await this.connections.close();
  }

  /** Whether a fetch of this process can claim work of these definitions. True for unknown ones, which are then read. */
  #isWanted(topic: Topic, definitionKeys: readonly number[]): boolean {
    const { definitions } = this;
    if (definitions.knows(definitionKeys))
      return definitionKeys.some((key) => this.#fetching.wants(topic, definitions.get(key)));
    // An error has no effect: the next hint reads them again.
    this.read('poll', (tx) => definitions.load(tx, definitionKeys)).catch(() => undefined);
    return true;
  }

  /** Adjusts the estimated clock to a time that the database read after `sentAt` (monotonic). */
  #observe(nowMs: number, sentAt: number): void {
    if (this.clock === undefined) this.#storeClock.observe(nowMs, sentAt);
  }

  async #queryDue(operation: string, wanted: Wanted, flaggedSince?: number): Promise<DueTimes> {
    const schedules = this.nextSchedule.begin();
    const sessions = this.nextSession.begin();
    const sentAt = this.monotonic();
    const due = await this.connections.read(operation, (tx) =>
      this.#dueQuery.run(tx, wanted, {
        now: this.nowParameter,
        ...(flaggedSince !== undefined && { flaggedSince }),
      }),
    );
    this.#observe(due.now, sentAt);
    this.nextSchedule.record(schedules, due.nextScheduleAt, due.now);
    this.nextSession.record(sessions, due.nextSessionAt, due.now);
    this.limited.record(due.limited, sentAt);
    return due;
  }
}
