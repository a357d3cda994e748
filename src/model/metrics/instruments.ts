import type { Instrument } from '../telemetry.ts';

/** The number of names with their own samples. Further names are counted as `other`. */
export const maxMetricNames = 200;

/** The name for all definitions beyond `maxMetricNames`. */
export const otherMetricName = 'other';

/** The largest number of samples in the text of a server. */
export const maxMetricSamples = 2_000;

/**
 * The number of pairs of a name and a status other than completed and failed with their own samples. Further ones are counted with
 * their status, under the name `other`.
 */
export const maxRareStatuses = 200;

/** Bounds for work that takes milliseconds to hours, in seconds. */
const workBounds = [0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600, 3_600, 21_600, 86_400];
/** Bounds for internal operations, in seconds. */
const shortBounds = [0.001, 0.0025, 0.01, 0.05, 0.25, 1, 5];

function counter(name: string, help: string): Instrument {
  return { name, kind: 'counter', help };
}

function gauge(name: string, help: string): Instrument {
  return { name, kind: 'gauge', help };
}

function histogram(name: string, help: string, bounds: readonly number[]): Instrument {
  return { name, kind: 'histogram', help, bounds };
}

/** The metrics of the workers of a process, in the order of the text. */
export const instruments = {
  started: counter(
    'perdure_instances_started_total',
    'Instances that began, by name: orchestrations with their first turn, task runs with their first attempt.',
  ),
  ended: counter(
    'perdure_instances_ended_total',
    'Instances that workers of this process ended, by name and status.',
  ),
  instanceDuration: histogram(
    'perdure_instance_duration_seconds',
    'Duration of orchestration executions from first to last turn, by status, in seconds.',
    workBounds,
  ),
  turnDuration: histogram(
    'perdure_turn_duration_seconds',
    'Duration of committed turns including the commit, by path, in seconds.',
    shortBounds,
  ),
  attemptDuration: histogram(
    'perdure_attempt_duration_seconds',
    'Duration of attempts of activities and tasks, by outcome, in seconds.',
    workBounds,
  ),
  scheduleToStart: histogram(
    'perdure_schedule_to_start_seconds',
    'Time between due and claimed of activities and tasks, by kind, in seconds.',
    [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600, 3_600],
  ),
  timerLateness: histogram(
    'perdure_timer_lateness_seconds',
    'Time between the due time of a timer and its turn, in seconds.',
    shortBounds,
  ),
  scheduleLateness: histogram(
    'perdure_schedule_lateness_seconds',
    'Time between the due time of a tick and its start, in seconds.',
    [0.01, 0.05, 0.25, 1, 5, 30, 120, 600],
  ),
  cacheLookups: counter(
    'perdure_warm_cache_lookups_total',
    'Lookups of instances in the warm cache, by result: hit or miss.',
  ),
  blockedTurns: counter(
    'perdure_blocked_turns_total',
    'Turns that were not committed because code and history disagree or data cannot be decoded.',
  ),
  leakedHandlers: counter(
    'perdure_handlers_leaked_total',
    'Handlers that still ran after their grace.',
  ),
  storeDuration: histogram(
    'perdure_store_operation_duration_seconds',
    'Duration of operations of the store since the metrics were first read, by operation, in seconds.',
    [0.001, 0.005, 0.025, 0.1, 0.5, 2.5],
  ),
  storeErrors: counter(
    'perdure_store_errors_total',
    'Failed operations of the store, by operation.',
  ),
  sweeps: counter(
    'perdure_retention_sweeps_total',
    'Retention sweeps of this process, by outcome.',
  ),
  sweptInstances: counter(
    'perdure_retention_deleted_instances_total',
    'Instances that retention sweeps of this process deleted.',
  ),
  slots: gauge(
    'perdure_process_slots',
    'Slots for activities and tasks of the workers of this process, by state.',
  ),
  warmInstances: gauge('perdure_process_warm_instances', 'Instances in the warm cache.'),
} as const satisfies Readonly<Record<string, Instrument>>;

/** Gauges of the store. A server has them in its text; OpenTelemetry reads them when it collects. */
export const storeInstruments = {
  queueDepth: gauge('perdure_queue_depth', 'Queue entries by queue and state.'),
  queueAge: gauge(
    'perdure_queue_oldest_ready_seconds',
    'Age of the oldest claimable entry, in seconds.',
  ),
  blocked: gauge('perdure_blocked_instances', 'Blocked instances, counted up to 10,000.'),
  limitRunning: gauge(
    'perdure_limit_running',
    'Places in use of definitions with limits or keys, by kind and name, at most 200.',
  ),
  limitMax: gauge('perdure_limit_max', 'The global concurrency limit, by kind and name.'),
  limitWaiting: gauge(
    'perdure_limit_waiting',
    'Work without a place, due or delayed, by kind and name, counted up to 1,000.',
  ),
} as const satisfies Readonly<Record<string, Instrument>>;
