import { PerdureError } from '../model/failures/errors.ts';
import { invalid, invalidOption, readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkName } from '../model/values/names.ts';
import type { SessionEnd, SessionState } from '../providers/contract/sessions.ts';

/** `graceful` waits for the jobs of a session; `forceful` cancels them. */
export type ShutdownMode = 'graceful' | 'forceful';

/** The state of a session. All times are milliseconds since the epoch. */
export interface SessionInfo {
  readonly id: string;
  readonly label?: string;
  /** The name of the token that opened it, if a server set it. */
  readonly owner?: string;
  readonly state: SessionState;
  /** Why it ended or ends. */
  readonly end?: SessionEnd;
  /** The duration of its lease. */
  readonly idleTimeoutMs: number;
  readonly createdAt: number;
  /** When its lease expires, unless it is renewed. */
  readonly expiresAt: number;
  readonly endedAt?: number;
  readonly variables: Readonly<Record<string, string>>;
  /** Set if a server hides the variables because the session belongs to another token. */
  readonly variablesHidden?: true;
  /** Number of jobs that run or whose `onAbandoned` hook is due. The session ends when it is 0. */
  readonly openJobs: number;
}

/** One job of a session. */
export interface JobInfo {
  readonly id: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly status: InstanceStatus;
  readonly createdAt: number;
  /** When its reply was given up. */
  readonly abandonedAt?: number;
}

/** A page of sessions, newest first. */
export interface SessionPage {
  readonly items: readonly SessionInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** A page of the jobs of a session, oldest first. */
export interface JobPage {
  readonly items: readonly JobInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** Options of a session. */
export interface OpenSessionOptions {
  /** A name for operators; need not be unique. */
  readonly label?: string | undefined;
  /** The lease: the session ends forcefully if its client is silent this long. 5 s to 3 h. Default 30 s. */
  readonly idleTimeout?: Duration | undefined;
  /** Strings by name, shown with the session. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** Maximum unfinished jobs in the store; the client queues the others. Default 128. */
  readonly maxInFlight?: number | undefined;
}

/** Options of a session, checked. */
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

/** Checks the options of a session. */
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

export function readMode(mode: unknown): ShutdownMode {
  if (mode === 'graceful' || mode === 'forceful') return mode;
  throw invalid('The mode', mode, "'graceful' or 'forceful'");
}

/** Checks one variable; `null` deletes it. */
export function readVariable(name: unknown, value: unknown): readonly [string, string | null] {
  const key = checkName(name, 'Variable name');
  if (key === '__proto__') throw invalid('The name of a variable', key, 'another name');
  if (value === null) return [key, null];
  if (typeof value !== 'string') throw invalid(`The value of variable ${key}`, value, 'a string');
  if (value.length <= maxValueLength) return [key, value];
  throw new PerdureError(
    'INVALID_INPUT',
    `The value of variable ${JSON.stringify(key)} has ${value.length} characters: the maximum is ${maxValueLength}.`,
  );
}

/** Checks the variables of a new session. */
export function readVariables(variables: unknown): Readonly<Record<string, string>> {
  if (variables === undefined) return {};
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw invalid('variables', variables, 'an object whose values are strings');
  }
  const entries = Object.entries(variables);
  checkCount(entries.length);
  const read = entries.map(([name, value]) => {
    if (typeof value !== 'string')
      throw invalid(`The value of variable ${name}`, value, 'a string');
    return readVariable(name, value) as readonly [string, string];
  });
  return Object.fromEntries(read);
}

/** Throws if a change would exceed the maximum number of variables. */
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
