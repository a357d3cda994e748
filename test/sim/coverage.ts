import type { ObservedCall } from './engine/connection.ts';
import type { Weather } from './engine/weather.ts';

interface Turn {
  readonly events: readonly { readonly kind: string }[];
}

/** A fetched item, an ack, a request or its result. */
interface Entry {
  readonly kind?: string;
  readonly ok?: boolean;
  readonly changed?: boolean;
  readonly cancel?: unknown;
  /** Why a session has ended. */
  readonly end?: string | null;
  readonly turn?: Turn;
  readonly firstTurn?: Turn;
  readonly outcome?: { readonly kind: string };
}

const isEntry = (value: unknown): value is Entry => typeof value === 'object' && value !== null;

/** What a committed call reached: its method, the kinds of its results, and the events of its turns. */
export function* reachedBy({ method, args, result }: ObservedCall): Generator<string> {
  yield `call ${method}`;
  if (/^(?:read|get|list|scan|count)/.test(method)) return;
  const entries: readonly unknown[] = Array.isArray(args[0]) ? args[0] : [args[0]];
  const results: readonly unknown[] = Array.isArray(result) ? result : [result];
  for (const one of results) {
    if (typeof one === 'string') yield `result ${method} ${one.slice(0, 20)}`;
    if (!isEntry(one)) continue;
    if (typeof one.kind === 'string') yield `result ${method} ${one.kind}`;
    if (one.ok === false) yield `result ${method} lost`;
    if (one.end === 'expired') yield 'fault sessionLost';
    if (one.changed === true) yield `result ${method} changed`;
    if (one.cancel !== undefined && one.cancel !== null) yield `result ${method} canceled`;
  }
  for (const one of entries) {
    if (!isEntry(one)) continue;
    if (one.outcome !== undefined) yield `outcome ${one.outcome.kind}`;
    for (const { kind } of one.turn?.events ?? one.firstTurn?.events ?? []) yield `event ${kind}`;
  }
}

export function* reachedByWeather(weather: Weather): Generator<string> {
  if (weather.skewMs > 0) yield 'fault skew';
  if (weather.mixedBuilds) yield 'fault mixedBuilds';
  if (weather.deafEnd) yield 'fault deafEnd';
  yield weather.storeWakes ? 'weather storeWakes' : 'weather connectionWakes';
  if (!weather.fastPaths) yield 'weather slowPaths';
  if (!weather.warm) yield 'weather cold';
  if (Object.keys(weather.rates).length === 0) yield 'weather calm';
}

/** What 2,000 seeds must reach, by the kind of its name. */
const expected: Readonly<Record<string, readonly string[]>> = {
  fault: [
    'kill',
    'killClient',
    'lostAtKill',
    'stop',
    'stall',
    'failBefore',
    'failAfter',
    'slow',
    'hintLost',
    'hintTwice',
    'hintLate',
    'hintReordered',
    'sessionLost',
    'wakeLost',
    'deafEnd',
    'leaseExpired',
    'takeover',
    'skew',
    'step',
    'storeStep',
    'burn',
    'block',
    'gracefulStop',
    'mixedBuilds',
    'groupCommit',
    'badItem',
    'repeat',
  ],
  weather: ['calm', 'storeWakes', 'connectionWakes', 'slowPaths', 'cold'],
  program: [
    'call',
    'run',
    'transaction',
    'sleep',
    'update',
    'awakeable',
    'state',
    'emit',
    'task',
    'all',
    'select',
    'detached',
    'child',
    'globals',
    'orphan',
    'again',
    'shield',
    'flow',
    ...['call', 'both', 'race', 'scope', 'sleep', 'wait', 'child', 'again'].map(
      (step) => `script ${step}`,
    ),
    ...['plain', 'limited', 'rated', 'batched', 'debounced', 'deduped', 'expiring'].map(
      (name) => `task ${name}`,
    ),
    ...['skip', 'allow', 'buffer', 'cancelRunning'].map((overlap) => `schedule ${overlap}`),
    'session closed',
    'session drained',
    'retention',
    'collector',
    'task fragile',
    'task skipped',
    'limited orchestration',
    'limited task',
  ],
  limit: [
    'limited global',
    'gated global',
    'gated perKey',
    'guarded global',
    'guarded perKey',
    'narrow global',
  ],
  operation: [
    'cancel',
    'raise',
    'pause',
    'resume',
    'terminate',
    'delete',
    'retry',
    'retry of an ended instance',
    'restart',
    'prune',
    'set limits',
  ],
  event: [
    'activityScheduled',
    'activityCompleted',
    'activityFailed',
    'activityCanceled',
    'stepCompleted',
    'stepRetried',
    'timerCreated',
    'timerFired',
    'eventAwaited',
    'eventReceived',
    'updateAccepted',
    'updateCompleted',
    'awakeableResolved',
    'stateSet',
    'chunkEmitted',
    'childScheduled',
    'childCompleted',
    'childFailed',
    'childCanceled',
    'detachedStarted',
    'operationWithdrawn',
    'cancelRequested',
    'executionContinuedAsNew',
    'executionCompleted',
    'executionFailed',
    'executionCanceled',
  ],
  outcome: ['completed', 'failed', 'canceled'],
  result: [
    'ackOrchestrationItems lost',
    'ackTurns lost',
    'ackWorkItems lost',
    'createInstances created',
    'createInstances exists',
    'createTasks active',
    'fetchWorkItems activity',
    'fetchWorkItems task',
    'fetchWorkItems onFail',
    'deleteInstancesAtomic deleted',
    'retryInstances retried',
    'submitJobs created',
    'requestCancel changed',
    'terminate changed',
    'pauseInstances changed',
    'fetchWorkItems canceled',
    'renewWorkItemLocks canceled',
    'markPointOfNoReturn passed',
    'shutdownSession accepted',
  ],
  call: [
    'transact',
    'readHeldMessages',
    'renewOrchestrationLocks',
    'renewWorkItemLocks',
    'retryWorkItems',
    'abandonWorkItems',
    'abandonOrchestrationItems',
    'terminate',
    'pauseInstances',
    'resumeInstances',
    'pauseDefinitions',
    'resumeDefinitions',
    'pruneExecutionsAtomic',
    'declareLimits',
    'putSchedule',
    'tickSchedules',
    'setSchedulePaused',
    'startScheduledRuns',
    'deleteSchedule',
    'openSession',
    'takeJobs',
    'abandonJobs',
    'settleSession',
    'renewSessions',
    'appendChunks',
    'readChunks',
    'readStream',
    'scanInstances',
    'reclaimDeleted',
    'applyTimeouts',
    'unregisterWorkers',
  ],
};

/** Names of everything that 2,000 seeds must reach: faults, programs, operations and their results. */
export const expectedCoverage: readonly string[] = Object.entries(expected).flatMap(
  ([kind, names]) => names.map((name) => `${kind} ${name}`),
);
