import { PerdureError } from '../model/failures/errors.ts';
import { invalid, invalidOption, readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkName } from '../model/values/names.ts';
import type { SessionEnd, SessionState } from '../providers/contract/sessions.ts';

/** How to shut a session down: `graceful` lets its jobs end, `forceful` cancels them. */
export type ShutdownMode = 'graceful' | 'forceful';

/** What is known of a session. All times are milliseconds since the epoch. */
export interface SessionInfo {
  readonly id: string;
  readonly label?: string;
  /** Who opened it, where a server knows that. */
  readonly owner?: string;
  readonly state: SessionState;
  /** Why it ends. */
  readonly end?: SessionEnd;
  /** How long it may go unheard of. */
  readonly idleTimeoutMs: number;
  readonly createdAt: number;
  /** When it ends by itself, unless it is heard of before. */
  readonly expiresAt: number;
  readonly endedAt?: number;
  readonly variables: Readonly<Record<string, string>>;
  /** Set where a server does not show the variables, because the session belongs to another token. */
  readonly variablesHidden?: true;
  /** Its jobs that run, or whose late result is still to be disposed of: what keeps it from ending. */
  readonly openJobs: number;
}

/** One job of a session, as an operator sees it. */
export interface JobInfo {
  readonly id: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly status: InstanceStatus;
  readonly createdAt: number;
  /** Since when nobody wants its reply any more. */
  readonly abandonedAt?: number;
}

/** A page of sessions, the newest first. */
export interface SessionPage {
  readonly items: readonly SessionInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** A page of the jobs of a session, the oldest first. */
export interface JobPage {
  readonly items: readonly JobInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** How a session is opened. */
export interface OpenSessionOptions {
  /** What operators know it by; need not be unique. */
  readonly label?: string | undefined;
  /** How long it may go unheard of before it ends forcefully: 5 s to 3 h. Default 30 s. */
  readonly idleTimeout?: Duration | undefined;
  /** Text by name, for whoever looks. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** How many of its jobs may be under way at once; others wait here until there is room. Default 128. */
  readonly maxInFlight?: number | undefined;
}

/** Options of a session that have been checked. */
export interface ChosenSession {
  readonly label: string | null;
  readonly idleTimeoutMs: number;
  readonly variables: Readonly<Record<string, string>>;
  readonly maxInFlight: number;
}

const minIdleMs = 5_000;
const maxIdleMs = 10_800_000;
const maxVariables = 100;
const maxValueLength = 65_536;

/** Reads how a session is to be opened. */
export function readSessionOptions(options: OpenSessionOptions | undefined): ChosenSession {
  const { label, idleTimeout, variables, maxInFlight } = readFields(options, 'openSession()', [
    'label',
    'idleTimeout',
    'variables',
    'maxInFlight',
  ] as const);
  return {
    label: label === undefined ? null : checkName(label, 'Session label'),
    idleTimeoutMs: readIdleTimeout(idleTimeout),
    variables: readVariables(variables),
    maxInFlight: readMaxInFlight(maxInFlight),
  };
}

/** Reads how a session is to be shut down. */
export function readMode(mode: unknown): ShutdownMode {
  if (mode === 'graceful' || mode === 'forceful') return mode;
  throw invalid('The mode', mode, "'graceful' or 'forceful'");
}

/** Reads one variable; `null` takes it away. */
export function readVariable(name: unknown, value: unknown): readonly [string, string | null] {
  const key = checkName(name, 'Variable name');
  if (key === '__proto__') throw invalid('The name of a variable', key, 'another one');
  if (value === null) return [key, null];
  if (typeof value !== 'string') throw invalid(`The value of variable ${key}`, value, 'text');
  if (value.length <= maxValueLength) return [key, value];
  throw new PerdureError(
    'INVALID_INPUT',
    `The value of variable ${key} has ${value.length} characters; use at most ${maxValueLength}.`,
  );
}

/** Reads the variables of a new session. */
export function readVariables(variables: unknown): Readonly<Record<string, string>> {
  if (variables === undefined) return {};
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw invalid('variables', variables, 'an object whose values are all text');
  }
  const entries = Object.entries(variables);
  checkCount(entries.length);
  const read = entries.map(([name, value]) => {
    if (typeof value !== 'string') throw invalid(`The value of variable ${name}`, value, 'text');
    return readVariable(name, value) as readonly [string, string];
  });
  return Object.fromEntries(read);
}

/** Refuses a change that would leave a session with more variables than it may have. */
export function checkVariables(
  before: Readonly<Record<string, string>>,
  set: Readonly<Record<string, string | null>>,
): void {
  const names = new Set(Object.keys(before));
  for (const [name, value] of Object.entries(set)) {
    if (value === null) names.delete(name);
    else names.add(name);
  }
  checkCount(names.size);
}

function checkCount(count: number): void {
  if (count <= maxVariables) return;
  throw invalid('The number of variables', count, `at most ${maxVariables}`);
}

function readIdleTimeout(idleTimeout: unknown): number {
  if (idleTimeout === undefined) return 30_000;
  const ms = toMs(idleTimeout as Duration, 'idleTimeout');
  if (ms >= minIdleMs && ms <= maxIdleMs) return ms;
  throw invalidOption('idleTimeout', idleTimeout, '5 s to 3 h');
}

function readMaxInFlight(count: unknown): number {
  if (count === undefined) return 128;
  if (Number.isSafeInteger(count) && (count as number) >= 1) return count as number;
  throw invalidOption('maxInFlight', count, 'a whole number of 1 or more');
}
