import { hostname } from 'node:os';
import {
  readKeepSeries,
  resolveRetention,
  type ResolvedRetention,
  type RetentionOptions,
} from '../management/retention-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { consoleLogger, type Logger } from '../model/logger.ts';
import { MiddlewareChain } from '../model/middleware.ts';
import { RunMetrics } from '../model/metrics/run-metrics.ts';
import type { Telemetry } from '../model/telemetry.ts';
import { checkName } from '../model/values/names.ts';
import { defaultPayloadLimitBytes } from '../model/values/payload.ts';
import { defaultStateLimits, type StateLimits } from '../model/values/state.ts';
import { defaultKeepSeriesMs } from '../providers/rules/series.ts';
import { defaultHeartbeatMs } from '../providers/rules/workers.ts';
import type { RuntimeHooks } from './hooks.ts';
import { safeLogger } from './safe-logger.ts';
import type { HostProcesses } from './leases/host-processes.ts';
import { readTestOptions } from './test-options.ts';

// The registry lists a worker for a day after its last heartbeat.
const maxHeartbeatMs = 3_600_000;

/** Options of `startWorker()`. All have defaults. */
export interface WorkerOptions {
  /** Worker name shown to operators. Default: `<hostname>-<pid>`. */
  readonly name?: string;
  /** Maximum concurrent activities and tasks. Default: 100. */
  readonly activityConcurrency?: number;
  /** Maximum concurrent steps of `ctx.run()`. Default: 100. */
  readonly stepConcurrency?: number;
  /** Maximum instances claimed in one fetch. Default: 256. */
  readonly orchestrationBatch?: number;
  /** Lease of a claimed activity or task. Default: 30 s; at least 50 ms. */
  readonly activityLease?: Duration;
  /** Lease of a claimed instance. Default: 10 s; at least 50 ms. */
  readonly orchestrationLease?: Duration;
  /** Maximum wait of a fetch before it queries again, if every hint was lost. Default: 1 s. */
  readonly pollInterval?: Duration;
  /** Interval at which the worker renews its entry in `client.workers()`. Default: 10 s; 100 ms to 1 hour. */
  readonly heartbeat?: Duration;
  /** Time a handler has to stop after its signal is aborted. Default: 10 s. */
  readonly cancelGrace?: Duration;
  /**
   * Clean-up limit of child instances that a turn of this worker cancels. Default: 5 minutes.
   * `client.cancel()` has its own `cleanupTimeout`.
   */
  readonly cleanupTimeout?: Duration;
  /** Time that `stop()` lets running handlers finish before it aborts their signals. Default: 10 s. */
  readonly shutdownGrace?: Duration;
  /**
   * Kills the process (`SIGKILL`) once its event loop is blocked for this long. Its supervisor should restart it.
   * `true`: the longer of the two leases. Default: never.
   */
  readonly exitWhenBlocked?: Duration | boolean;
  /** Maximum claims without an outcome before an item is marked as poison. Default: 10. */
  readonly maxClaims?: number;
  /** Memory for warm instances, in bytes. Default: 64 MiB; 0 disables the cache. */
  readonly warmCacheBytes?: number;
  /** Maximum size of an input, result or event, in bytes. Default: 2 MiB. */
  readonly payloadLimitBytes?: number;
  /**
   * Maximum size of the stream of a run, in bytes: the JSON of its chunks, and 64 bytes for each. The oldest chunks are
   * dropped. Default: 8 MiB; at least 64 KiB.
   */
  readonly streamLimitBytes?: number;
  /** Maximum state of an instance. Default: 256 keys, 64 KiB per value. See `ctx.state`. */
  readonly stateLimits?: Partial<StateLimits>;
  /** Handling of nondeterminism. Default: `'block'`, which retries until a deploy agrees with the history. */
  readonly onNondeterminism?: 'block' | 'fail';
  /**
   * Handling of an orchestration that ends with operations that it never awaited.
   * `'warn'` (default) logs them. `'fail'` fails the instance with `NEVER_AWAITED`.
   */
  readonly onUnawaited?: 'warn' | 'fail';
  /**
   * Identifies the deployed code. A new build retries blocked instances immediately.
   * Default: a hash of the orchestrations.
   */
  readonly buildId?: string;
  /** Patches `Date`, `Math.random` and similar globals inside orchestrations. Default: true. */
  readonly deterministicGlobals?: boolean;
  /** Destination of log lines. Default: warnings and errors to the console. `silentLogger` drops all. */
  readonly logger?: Logger;
  readonly hooks?: RuntimeHooks;
  /**
   * Policies that delete finished instances, and how long minutes of `client.series()` are kept. One of the workers
   * runs them. Default: no policies, 7 days.
   */
  readonly retention?: RetentionOptions;
}

/** Options with defaults applied and durations in milliseconds. */
export interface ResolvedOptions {
  readonly name: string;
  readonly activityConcurrency: number;
  readonly stepConcurrency: number;
  readonly orchestrationBatch: number;
  readonly activityLeaseMs: number;
  readonly orchestrationLeaseMs: number;
  readonly pollIntervalMs: number;
  readonly heartbeatMs: number;
  readonly cancelGraceMs: number;
  readonly cleanupTimeoutMs: number;
  readonly shutdownGraceMs: number;
  readonly exitWhenBlockedMs: number | undefined;
  readonly maxClaims: number;
  readonly warmCacheBytes: number;
  readonly payloadLimitBytes: number;
  readonly streamLimitBytes: number;
  readonly stateLimits: StateLimits;
  readonly onNondeterminism: 'block' | 'fail';
  readonly onUnawaited: 'warn' | 'fail';
  readonly buildId: string;
  readonly deterministicGlobals: boolean;
  readonly fastPaths: boolean;
  /** The processes of the host. `null`: none is checked; `undefined`: those in `/proc`. */
  readonly host: HostProcesses | null | undefined;
  readonly alwaysReplay: boolean;
  readonly logger: Logger;
  readonly hooks: RuntimeHooks;
  readonly retention: ResolvedRetention | undefined;
  readonly keepSeriesMs: number;
  readonly telemetry: Telemetry | undefined;
  readonly metrics: RunMetrics;
  readonly middleware: MiddlewareChain;
}

/** Applies the defaults. Throws `INVALID_OPTION` or `INVALID_DURATION` for an invalid value. */
export function resolveOptions(
  options: WorkerOptions,
  defaultBuildId: string,
  {
    telemetry,
    metrics = new RunMetrics(),
    middleware = new MiddlewareChain(),
  }: {
    readonly telemetry?: Telemetry | undefined;
    readonly metrics?: RunMetrics | undefined;
    readonly middleware?: MiddlewareChain | undefined;
  } = {},
): ResolvedOptions {
  const onNondeterminism = options.onNondeterminism ?? 'block';
  if (onNondeterminism !== 'block' && onNondeterminism !== 'fail') {
    throw invalidOption('onNondeterminism', onNondeterminism, "'block' or 'fail'");
  }
  const onUnawaited = options.onUnawaited ?? 'warn';
  if (onUnawaited !== 'warn' && onUnawaited !== 'fail') {
    throw invalidOption('onUnawaited', onUnawaited, "'warn' or 'fail'");
  }
  const activityLeaseMs = lease('activityLease', options.activityLease ?? 30_000);
  const orchestrationLeaseMs = lease('orchestrationLease', options.orchestrationLease ?? 10_000);
  return {
    name: checkName(options.name ?? `${hostname()}-${process.pid}`, 'Worker name'),
    activityConcurrency: whole('activityConcurrency', options.activityConcurrency ?? 100, 1),
    stepConcurrency: whole('stepConcurrency', options.stepConcurrency ?? 100, 1),
    orchestrationBatch: whole('orchestrationBatch', options.orchestrationBatch ?? 256, 1),
    activityLeaseMs,
    orchestrationLeaseMs,
    pollIntervalMs: Math.max(1, toMs(options.pollInterval ?? 1_000, 'pollInterval')),
    heartbeatMs: heartbeat(options.heartbeat ?? defaultHeartbeatMs),
    cancelGraceMs: toMs(options.cancelGrace ?? 10_000, 'cancelGrace'),
    cleanupTimeoutMs: toMs(options.cleanupTimeout ?? 300_000, 'cleanupTimeout'),
    shutdownGraceMs: toMs(options.shutdownGrace ?? 10_000, 'shutdownGrace'),
    exitWhenBlockedMs: exitWhenBlocked(
      options.exitWhenBlocked ?? false,
      Math.max(activityLeaseMs, orchestrationLeaseMs),
    ),
    maxClaims: whole('maxClaims', options.maxClaims ?? 10, 1),
    warmCacheBytes: whole('warmCacheBytes', options.warmCacheBytes ?? 64 * 1024 * 1024, 0),
    payloadLimitBytes: whole(
      'payloadLimitBytes',
      options.payloadLimitBytes ?? defaultPayloadLimitBytes,
      1,
    ),
    streamLimitBytes: whole(
      'streamLimitBytes',
      options.streamLimitBytes ?? 8 * 1024 * 1024,
      64 * 1024,
    ),
    stateLimits: readStateLimits(options.stateLimits),
    onNondeterminism,
    onUnawaited,
    buildId: options.buildId ?? defaultBuildId,
    deterministicGlobals: options.deterministicGlobals ?? true,
    ...readTestOptions(options),
    logger: options.logger === undefined ? consoleLogger : safeLogger(options.logger),
    hooks: options.hooks ?? {},
    retention: options.retention === undefined ? undefined : resolveRetention(options.retention),
    keepSeriesMs: readKeepSeries(options.retention) ?? defaultKeepSeriesMs,
    telemetry,
    metrics,
    middleware,
  };
}

function readStateLimits(limits: Partial<StateLimits> = {}): StateLimits {
  const given = readFields(limits, 'stateLimits', ['keys', 'valueBytes'] as const);
  const { keys, valueBytes } = { ...defaultStateLimits, ...given } as StateLimits;
  return {
    keys: whole('stateLimits.keys', keys, 0),
    valueBytes: whole('stateLimits.valueBytes', valueBytes, 1),
  };
}

function whole(name: string, value: number, min: number): number {
  if (!Number.isSafeInteger(value) || value < min) {
    throw invalidOption(name, value, `an integer of at least ${min}`);
  }
  return value;
}

// A busy process cannot renew a shorter lease in time.
function lease(name: string, value: Duration): number {
  const ms = toMs(value, name);
  if (ms < 50) throw invalidOption(name, value, 'at least 50 ms');
  return ms;
}

// A worker is stale after three heartbeats. A busy process may delay one by some 100 ms.
function heartbeat(value: Duration): number {
  const ms = toMs(value, 'heartbeat');
  if (ms < 100 || ms > maxHeartbeatMs) {
    throw invalidOption('heartbeat', value, 'from 100 ms to 1 hour');
  }
  return ms;
}

function exitWhenBlocked(value: Duration | boolean, leaseMs: number): number | undefined {
  if (typeof value === 'boolean') return value ? leaseMs : undefined;
  return toMs(value, 'exitWhenBlocked');
}
