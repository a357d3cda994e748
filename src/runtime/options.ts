import { hostname } from 'node:os';
import {
  resolveRetention,
  type ResolvedRetention,
  type RetentionOptions,
} from '../management/retention-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { consoleLogger, type Logger } from '../model/logger.ts';
import { checkName } from '../model/values/names.ts';
import { defaultPayloadLimitBytes } from '../model/values/payload.ts';
import type { RuntimeHooks } from './hooks.ts';
import { readTestOptions } from './test-options.ts';

/** What a worker can be told; every field has a default that suits most. */
export interface WorkerOptions {
  /** What operators see it as. Default: the host and the process id. */
  readonly name?: string;
  /** Activities and tasks that may run at once. Default 100: they mostly wait on I/O. */
  readonly activityConcurrency?: number;
  /** Instances claimed in one fetch. Default 256. */
  readonly orchestrationBatch?: number;
  /** How long a claimed activity stays ours without renewal. Default 30 s. */
  readonly activityLease?: Duration;
  /** How long a claimed instance stays ours without renewal. Default 10 s. */
  readonly orchestrationLease?: Duration;
  /** The longest a fetch waits before it looks again, should every hint be lost. Default 1 s. */
  readonly pollInterval?: Duration;
  /** How long a handler may go on after its signal was aborted. Default 10 s. */
  readonly cancelGrace?: Duration;
  /** How long the code of a canceled instance may clean up before it is ended without it. Default 5 minutes. */
  readonly cleanupTimeout?: Duration;
  /** How long `stop()` lets running activities finish before it aborts their signals. Default 10 s. */
  readonly shutdownGrace?: Duration;
  /**
   * Ends the process with `SIGKILL` once its event loop is blocked for so long, so that its supervisor starts another;
   * `true` stands for the longer of the two leases. Default: never.
   */
  readonly exitWhenBlocked?: Duration | boolean;
  /** Claims without a settled attempt after which an item is poison. Default 10. */
  readonly maxClaims?: number;
  /** Memory for instances kept live between their turns. Default 64 MiB; 0 turns it off. */
  readonly warmCacheBytes?: number;
  /** The largest input, result or event. Default 2 MiB. */
  readonly payloadLimitBytes?: number;
  /** What to do when code and history disagree. Default `'block'`: hold the instance back until a deploy mends it. */
  readonly onNondeterminism?: 'block' | 'fail';
  /**
   * What to do when an orchestration returns, or continues as new, with operations that it never awaited. Default
   * `'warn'`: log them. `'fail'`: fail the instance with `NEVER_AWAITED`.
   */
  readonly onUnawaited?: 'warn' | 'fail';
  /** Identifies the deployed code: another build tries held-back instances at once. Default: a hash of the orchestrations. */
  readonly buildId?: string;
  /** Patch `Date`, `Math.random` and the like inside orchestrations. Default true. */
  readonly deterministicGlobals?: boolean;
  /** Where log lines go. Default: warnings and errors to the console; `silentLogger` drops all. */
  readonly logger?: Logger;
  readonly hooks?: RuntimeHooks;
  /** What to delete, and when; one of the workers that are told does it. Default: nothing is ever deleted. */
  readonly retention?: RetentionOptions;
}

/** Options with every field decided, durations in milliseconds. */
export interface ResolvedOptions {
  readonly name: string;
  readonly activityConcurrency: number;
  readonly orchestrationBatch: number;
  readonly activityLeaseMs: number;
  readonly orchestrationLeaseMs: number;
  readonly pollIntervalMs: number;
  readonly cancelGraceMs: number;
  readonly cleanupTimeoutMs: number;
  readonly shutdownGraceMs: number;
  readonly exitWhenBlockedMs: number | undefined;
  readonly maxClaims: number;
  readonly warmCacheBytes: number;
  readonly payloadLimitBytes: number;
  readonly onNondeterminism: 'block' | 'fail';
  readonly onUnawaited: 'warn' | 'fail';
  readonly buildId: string;
  readonly deterministicGlobals: boolean;
  readonly fastPaths: boolean;
  readonly alwaysReplay: boolean;
  readonly logger: Logger;
  readonly hooks: RuntimeHooks;
  readonly retention: ResolvedRetention | undefined;
}

/** Fills in the defaults and refuses what makes no sense. */
export function resolveOptions(options: WorkerOptions, defaultBuildId: string): ResolvedOptions {
  const onNondeterminism = options.onNondeterminism ?? 'block';
  if (onNondeterminism !== 'block' && onNondeterminism !== 'fail') {
    throw invalid('onNondeterminism', onNondeterminism, "'block' or 'fail'");
  }
  const onUnawaited = options.onUnawaited ?? 'warn';
  if (onUnawaited !== 'warn' && onUnawaited !== 'fail') {
    throw invalid('onUnawaited', onUnawaited, "'warn' or 'fail'");
  }
  const activityLeaseMs = lease('activityLease', options.activityLease ?? 30_000);
  const orchestrationLeaseMs = lease('orchestrationLease', options.orchestrationLease ?? 10_000);
  return {
    name: checkName(options.name ?? `${hostname()}-${process.pid}`, 'Worker name'),
    activityConcurrency: whole('activityConcurrency', options.activityConcurrency ?? 100, 1),
    orchestrationBatch: whole('orchestrationBatch', options.orchestrationBatch ?? 256, 1),
    activityLeaseMs,
    orchestrationLeaseMs,
    pollIntervalMs: Math.max(1, toMs(options.pollInterval ?? 1_000, 'pollInterval')),
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
    onNondeterminism,
    onUnawaited,
    buildId: options.buildId ?? defaultBuildId,
    deterministicGlobals: options.deterministicGlobals ?? true,
    ...readTestOptions(options),
    logger: options.logger ?? consoleLogger,
    hooks: options.hooks ?? {},
    retention: options.retention === undefined ? undefined : resolveRetention(options.retention),
  };
}

function whole(name: string, value: number, min: number): number {
  if (!Number.isSafeInteger(value) || value < min) {
    throw invalid(name, value, `a whole number of ${min} or more`);
  }
  return value;
}

// A lease shorter than this cannot be renewed in time by a process that also does its work.
function lease(name: string, value: Duration): number {
  const ms = toMs(value, name);
  if (ms < 50) throw invalid(name, value, '50 ms or more');
  return ms;
}

function exitWhenBlocked(value: Duration | boolean, leaseMs: number): number | undefined {
  if (typeof value === 'boolean') return value ? leaseMs : undefined;
  return toMs(value, 'exitWhenBlocked');
}

function invalid(name: string, value: unknown, wanted: string): PerdureError {
  return new PerdureError('INVALID_OPTION', `${name} is ${String(value)}; use ${wanted}.`);
}
