import type { Provider } from '../providers/contract/provider.ts';
import type { TransactRequest } from '../providers/contract/transactional.ts';
import type { ClaimedAtInsert, CommitResult } from '../providers/contract/turn.ts';

/** A store that tracks whether a worker uses it. */
export interface WatchedProvider {
  readonly provider: Provider;
  /** Whether a claim is held or a call is in progress. A fetch that waits for work does not count. */
  isBusy(): boolean;
  /** Resolves once `isBusy` is false. */
  whenQuiet(): Promise<void>;
}

interface Token {
  readonly lockToken: string;
}

/** Tracks claims from the fetch until they are acked, abandoned or lost. */
export function watchClaims(store: Provider): WatchedProvider {
  const claims = new Set<string>();
  const waiting: (() => void)[] = [];
  let calls = 0;

  const isBusy = (): boolean => calls > 0 || claims.size > 0;
  const claim = (tokens: readonly Token[]): void => {
    for (const { lockToken } of tokens) claims.add(lockToken);
  };
  const release = (lockTokens: readonly string[]): void => {
    for (const lockToken of lockTokens) claims.delete(lockToken);
    if (!isBusy()) for (const resolve of waiting.splice(0)) resolve();
  };
  const follow = async <Result>(
    call: Promise<Result>,
    lockTokens: readonly string[] = [],
    claimed: (result: Result) => readonly ClaimedAtInsert[] = () => [],
  ): Promise<Result> => {
    calls += 1;
    try {
      const result = await call;
      claim(claimed(result));
      return result;
    } finally {
      calls -= 1;
      release(lockTokens);
    }
  };
  const tokensOf = (items: readonly Token[]) => items.map(({ lockToken }) => lockToken);
  const claimedBy = (results: readonly CommitResult[]) =>
    results.flatMap((result) => (result.ok ? result.claimed : []));
  const lost = (tokens: readonly string[], held: readonly boolean[]): void =>
    release(tokens.filter((_, index) => held[index] !== true));

  const transact = async (request: TransactRequest): Promise<CommitResult> => {
    const tokens: string[] = [];
    const write: TransactRequest['write'] = async (tx) => {
      const one = await request.write(tx);
      // The claim of an instance that gets a message is kept.
      if (one.kind === 'turn') tokens.push(...one.ack.lockTokens);
      else if (one.kind === 'workItems') tokens.push(...one.acks.map(({ ack }) => ack.lockToken));
      else if (one.kind !== 'message') tokens.push(one.ack.lockToken);
      return one;
    };
    const call = async (): Promise<CommitResult> => {
      const result = await store.transact?.({ ...request, write });
      if (result === undefined) throw new Error('The store has no transactions.');
      // A refused ack has not settled the claim.
      if (!result.ok) tokens.length = 0;
      return result;
    };
    return follow(call(), tokens, (result) => claimedBy([result]));
  };

  const provider: Provider = {
    name: store.name,
    async fetchOrchestrationItems(params) {
      const items = await store.fetchOrchestrationItems(params);
      claim(items);
      return items;
    },
    async fetchWorkItems(params) {
      const items = await store.fetchWorkItems(params);
      claim(items);
      return items;
    },
    readHistory: (params) => follow(store.readHistory(params)),
    async ackOrchestrationItems(acks) {
      const results = await follow(store.ackOrchestrationItems(acks), [], claimedBy);
      const isKept = (index: number): boolean => {
        const result = results[index];
        return result?.ok === true && result.kept === true;
      };
      release(tokensOf(acks.filter((_, index) => !isKept(index))));
      return results;
    },
    readHeldMessages: (lockTokens) => follow(store.readHeldMessages(lockTokens)),
    abandonOrchestrationItems: (abandons) =>
      follow(store.abandonOrchestrationItems(abandons), tokensOf(abandons)),
    holdInstances: (holds) => follow(store.holdInstances(holds)),
    retryInstances: (retries) => follow(store.retryInstances(retries)),
    forkInstances: (forks) => follow(store.forkInstances(forks)),
    async renewOrchestrationLocks(lockTokens, extendMs) {
      const held = await follow(store.renewOrchestrationLocks(lockTokens, extendMs));
      lost(lockTokens, held);
      return held;
    },
    ackWorkItems: (acks) => follow(store.ackWorkItems(acks), tokensOf(acks), claimedBy),
    ackTurns: (acks) =>
      follow(
        store.ackTurns(acks),
        acks.flatMap(({ lockTokens }) => lockTokens),
        claimedBy,
      ),
    async renewWorkItemLocks(renewals, extendMs) {
      const results = await follow(store.renewWorkItemLocks(renewals, extendMs));
      lost(
        tokensOf(renewals),
        results.map(({ held }) => held),
      );
      return results;
    },
    abandonWorkItems: (abandons) => follow(store.abandonWorkItems(abandons), tokensOf(abandons)),
    retryWorkItems: (retries) => follow(store.retryWorkItems(retries), tokensOf(retries)),
    createInstances: (instances) =>
      follow(store.createInstances(instances), [], (results) =>
        results.flatMap((result) => (result.kind === 'created' ? result.claimed : [])),
      ),
    enqueueMessages: (messages) => follow(store.enqueueMessages(messages)),
    getInstances: (instanceIds, maxBytes) => follow(store.getInstances(instanceIds, maxBytes)),
    listInstances: (params) => follow(store.listInstances(params)),
    countInstances: (params) => follow(store.countInstances(params)),
    listDefinitions: (params) => follow(store.listDefinitions(params)),
    declareLimits: (request) => follow(store.declareLimits(request)),
    setLimits: (request) => follow(store.setLimits(request)),
    listLimits: (params) => follow(store.listLimits(params)),
    listLanes: (params) => follow(store.listLanes(params)),
    readStates: (requests) => follow(store.readStates(requests)),
    listExecutions: (params) => follow(store.listExecutions(params)),
    inspectTurn: (instanceId) => follow(store.inspectTurn(instanceId)),
    inspectInstances: (params) => follow(store.inspectInstances(params)),
    findStoredTexts: (params) => follow(store.findStoredTexts(params)),
    readHeaders: (instanceKeys) => follow(store.readHeaders(instanceKeys)),
    requestUpdates: (requests) => follow(store.requestUpdates(requests)),
    readUpdates: (updates) => follow(store.readUpdates(updates)),
    answerAwakeables: (answers) => follow(store.answerAwakeables(answers)),
    readInstanceHistory: (params) => follow(store.readInstanceHistory(params)),
    requestCancel: (requests) => follow(store.requestCancel(requests)),
    terminate: (requests) => follow(store.terminate(requests)),
    applyTimeouts: (request) => follow(store.applyTimeouts(request)),
    markPointOfNoReturn: (lockToken) => follow(store.markPointOfNoReturn(lockToken)),
    listRunningItems: (instanceId) => follow(store.listRunningItems(instanceId)),
    listChildren: (instanceIds) => follow(store.listChildren(instanceIds)),
    getParentId: (instanceId) => follow(store.getParentId(instanceId)),
    deleteInstancesAtomic: (trees) => follow(store.deleteInstancesAtomic(trees)),
    reclaimDeleted: (maxRows) => follow(store.reclaimDeleted(maxRows)),
    pruneExecutionsAtomic: (prunes) => follow(store.pruneExecutionsAtomic(prunes)),
    scanInstances: (params) => follow(store.scanInstances(params)),
    listAudit: (params) => follow(store.listAudit(params)),
    queueDepths: () => follow(store.queueDepths()),
    definitionQueues: (params) => follow(store.definitionQueues(params)),
    systemMetrics: () => follow(store.systemMetrics()),
    measureInstance: (instanceId) => follow(store.measureInstance(instanceId)),
    takeLease: (lease) => follow(store.takeLease(lease)),
    releaseLease: (lease) => follow(store.releaseLease(lease)),
    readRecord: (name) => follow(store.readRecord(name)),
    writeRecord: (name, value) => follow(store.writeRecord(name, value)),
    registerProcess: (process) => follow(store.registerProcess(process)),
    unregisterProcess: () => follow(store.unregisterProcess()),
    listProcesses: (hostId) => follow(store.listProcesses(hostId)),
    takeOverClaims: (processIds) => follow(store.takeOverClaims(processIds)),
    registerWorkers: (workers) => follow(store.registerWorkers(workers)),
    renewWorkers: (params) => follow(store.renewWorkers(params)),
    unregisterWorkers: (workerIds) => follow(store.unregisterWorkers(workerIds)),
    listWorkers: () => follow(store.listWorkers()),
    pauseInstances: (requests) => follow(store.pauseInstances(requests)),
    resumeInstances: (requests) => follow(store.resumeInstances(requests)),
    pauseDefinitions: (requests) => follow(store.pauseDefinitions(requests)),
    resumeDefinitions: (requests) => follow(store.resumeDefinitions(requests)),
    listPausedDefinitions: () => follow(store.listPausedDefinitions()),
    createTasks: (tasks) => follow(store.createTasks(tasks)),
    putSchedule: (write) => follow(store.putSchedule(write)),
    setSchedulePaused: (name, paused, resume) =>
      follow(store.setSchedulePaused(name, paused, resume)),
    deleteSchedule: (name) => follow(store.deleteSchedule(name)),
    listSchedules: (params) => follow(store.listSchedules(params)),
    dueSchedules: (max) => follow(store.dueSchedules(max)),
    tickSchedules: (ticks) => follow(store.tickSchedules(ticks)),
    startScheduledRuns: (runs) => follow(store.startScheduledRuns(runs)),
    openSession: (session) => follow(store.openSession(session)),
    renewSessions: (sessionIds) => follow(store.renewSessions(sessionIds)),
    submitJobs: (jobs) => follow(store.submitJobs(jobs)),
    takeJobs: (jobs) => follow(store.takeJobs(jobs)),
    abandonJobs: (jobs) => follow(store.abandonJobs(jobs)),
    shutdownSession: (request) => follow(store.shutdownSession(request)),
    settleSession: (sessionId, limit) => follow(store.settleSession(sessionId, limit)),
    dueSessions: (limit) => follow(store.dueSessions(limit)),
    claimAbandoned: (request) => follow(store.claimAbandoned(request)),
    settleAbandoned: (settled) => follow(store.settleAbandoned(settled)),
    getSessions: (sessionIds) => follow(store.getSessions(sessionIds)),
    listSessions: (params) => follow(store.listSessions(params)),
    setSessionVariables: (request) => follow(store.setSessionVariables(request)),
    getJobBindings: (jobs) => follow(store.getJobBindings(jobs)),
    listJobs: (params) => follow(store.listJobs(params)),
    appendChunks: (requests) => follow(store.appendChunks(requests)),
    readChunks: (params) => follow(store.readChunks(params)),
    readStream: (params) => follow(store.readStream(params)),
    findUnclaimedWork: (params) => follow(store.findUnclaimedWork(params)),
    inspectInstance: (params) => follow(store.inspectInstance(params)),
    readEvents: (params) => follow(store.readEvents(params)),
    readTree: (params) => follow(store.readTree(params)),
    readVersions: (instanceIds) => follow(store.readVersions(instanceIds)),
    writeSeries: (batch) => follow(store.writeSeries(batch)),
    readSeries: (params) => follow(store.readSeries(params)),
    countStops: (params) => follow(store.countStops(params)),
    sweepSeries: (params) => follow(store.sweepSeries(params)),
    ...(store.transact !== undefined && { transact }),
    hints: (listener) => store.hints(listener),
    close: () => store.close(),
  };
  return {
    provider,
    isBusy,
    whenQuiet: () =>
      isBusy() ? new Promise<void>((resolve) => waiting.push(resolve)) : Promise.resolve(),
  };
}
