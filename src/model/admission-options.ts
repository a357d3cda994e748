/**
 * The options by which a start finds a run instead of creating one: a key with a window, a key that moves a run, an
 * event, and what happens if the id is taken.
 * One reader, so that clients, jobs, schedules and servers accept and reject the same values.
 */
import { PerdureError } from './failures/errors.ts';
import { invalidOption, readFields } from './option-fields.ts';
import { checkDebounceKey, checkDedupeKey, checkName } from './values/names.ts';
import { randomToken } from './values/random-id.ts';
import { toMs, type Duration } from './values/duration.ts';
import type { EventToken } from './definition.ts';
import type { Payload } from './values/payload.ts';

/** A dedupe key that is also held after its run has ended. */
export interface DedupeOptions {
  /** The key, of at most 1,000 bytes. It belongs to the name of the task or orchestration. */
  readonly key: string;
  /** How long from its creation the run is returned instead of a second one: more than 0, at most 366 days. */
  readonly for: Duration;
}

/** Starts with one key become one run. */
export interface DebounceOptions {
  /** The key, of at most 1,000 bytes. It belongs to the name of the task or orchestration. */
  readonly key: string;
  /** How long after the last start with the key the run begins: more than 0, at most 366 days. */
  readonly wait: Duration;
  /** How long after the first start with the key the run begins at the latest, at least `wait`. Default: no limit. */
  readonly maxWait?: Duration | undefined;
  /** A repeated call with this key changes nothing. Default: generated per call. */
  readonly requestKey?: string | undefined;
}

/** The options of a start that find another run. */
export interface AdmissionOptions {
  /**
   * At most one run of the name with this key is active: a second call returns the first run. The short form of `dedupe`
   * without `for`. The key of a task run is held until its handler has stopped, also after a cancel.
   */
  readonly dedupeKey?: string | undefined;
  /** As `dedupeKey`, and the run is also returned after it has ended, until `for` has passed since it was created. */
  readonly dedupe?: DedupeOptions | undefined;
  /**
   * Moves the run with this key, if it has not started, to `wait` from now. Replaces its input, headers, tags, priority
   * and times by those of this call. Without such a run, creates one. Returns that run.
   */
  readonly debounce?: DebounceOptions | undefined;
}

/** A debounced start, checked. Its delay is the wait. */
export interface Debounce {
  readonly key: string;
  /** The longest time from the first start with the key to the start of the run. */
  readonly maxWaitMs?: number;
  /** Identifies the call: a repeat changes nothing. */
  readonly requestKey: string;
}

/** The options of a start that find another run, checked. */
export interface Admission {
  readonly dedupeKey?: string;
  /** How long from its creation a run with the key is returned, also after its end. */
  readonly dedupeMs?: number;
  readonly debounce?: Debounce;
  /** The wait of a debounced start. */
  readonly delayMs?: number;
}

/** The names of the options of a start that find another run. */
export const admissionNames = ['dedupeKey', 'dedupe', 'debounce'] as const;

type Given = Readonly<Partial<Record<string, unknown>>>;

// A typo such as seconds for milliseconds must not hold a key for centuries.
const maxWindowMs = 366 * 86_400_000;

/** Checks the options of a start that find another run, beside the other options of the start. */
export function readAdmission(given: Given): Admission {
  const { dedupeKey, dedupe, debounce } = given;
  if (debounce !== undefined) {
    refuseBeside('debounce', given, [
      ['dedupeKey', 'a debounced run is already the only one of its key that has not started'],
      ['dedupe', 'a debounced run is already the only one of its key that has not started'],
      ['delay', '`wait` is the delay'],
      ['runAt', '`wait` is the delay'],
      ['event', 'the run may be another one: raise the event at its id'],
      ['onConflict', 'the run may be another one'],
    ]);
    return readDebounce(debounce);
  }
  if (dedupe !== undefined) {
    refuseBeside('dedupe', given, [['dedupeKey', '`dedupeKey` is the short form']]);
    return readDedupe(dedupe);
  }
  return dedupeKey === undefined ? {} : { dedupeKey: checkDedupeKey(dedupeKey) };
}

/** Throws `INVALID_OPTION` if a start is debounced that has to create its run. */
export function refuseDebounce(given: unknown, where: string): void {
  const { debounce } = (given ?? {}) as { readonly debounce?: unknown };
  if (debounce === undefined) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `\`debounce\` is not an option of ${where}, which always creates its run. Use runTask() or start().`,
  );
}

function readDedupe(dedupe: unknown): Admission {
  const given = readFields(dedupe, '`dedupe`', ['key', 'for'] as const);
  const dedupeMs = readWindow('dedupe.for', given.for);
  return { dedupeKey: checkDedupeKey(given.key), dedupeMs };
}

function readDebounce(debounce: unknown): Admission {
  const names = ['key', 'wait', 'maxWait', 'requestKey'] as const;
  const given = readFields(debounce, '`debounce`', names);
  const key = checkDebounceKey(given.key);
  const delayMs = readWindow('debounce.wait', given.wait);
  const { maxWait, requestKey } = given;
  const maxWaitMs = maxWait === undefined ? undefined : readWindow('debounce.maxWait', maxWait);
  if (maxWaitMs !== undefined && maxWaitMs < delayMs) {
    throw invalidOption('debounce.maxWait', maxWait, `at least \`wait\` (${delayMs} ms)`);
  }
  return {
    delayMs,
    debounce: {
      key,
      ...(maxWaitMs !== undefined && { maxWaitMs }),
      requestKey: requestKey === undefined ? randomToken() : checkName(requestKey, 'requestKey'),
    },
  };
}

function readWindow(name: string, value: unknown): number {
  if (value === undefined) throw invalidOption(name, value, "a duration such as '30s' or '1h'");
  const ms = toMs(value as Duration, name);
  if (ms > 0 && ms <= maxWindowMs) return ms;
  throw invalidOption(name, value, 'more than 0 and at most 366 days');
}

function refuseBeside(
  option: string,
  given: Given,
  others: readonly (readonly [name: string, reason: string])[],
): void {
  for (const [name, reason] of others) {
    if (given[name] === undefined) continue;
    throw new PerdureError(
      'INVALID_OPTION',
      `Pass either \`${option}\` or \`${name}\`, not both: ${reason}.`,
    );
  }
}

/** An event that a start brings. */
export interface StartEvent<Value = unknown> {
  /** The event, or its name. */
  readonly token: EventToken<Value, unknown> | string;
  readonly payload?: NoInfer<Value> | undefined;
  /** A repeated key is one event. See `RaiseEventOptions`. */
  readonly key?: string | undefined;
}

/**
 * What a start does if its id belongs to a run with another input. `reject` (default): rejects with
 * `INSTANCE_ALREADY_EXISTS`. `useExisting`: returns the existing run. `terminateExisting`: terminates the run with its
 * descendants, if it is live, and starts the next execution under the same id, in one transaction. Only a run of the
 * same definition can be used or replaced.
 */
export type OnConflict = 'reject' | 'useExisting' | 'terminateExisting';

/** What a start does with the run that has its id. Absent: it is rejected. */
export type ConflictPlan = Exclude<OnConflict, 'reject'>;

/** An event, checked and encoded. */
export interface EncodedEvent {
  readonly name: string;
  readonly payload: Payload | null;
  readonly key?: string | undefined;
}

/** What the event of a child or a detached start records of its identity. */
export interface RecordedConflict {
  /** Raised with the start, or, by a detached start, at the live instance with the id. */
  readonly event?: EncodedEvent;
  readonly onConflict?: ConflictPlan;
  /** With `terminateExisting`: the incarnation of the replacement, so that a repeat replaces nothing. */
  readonly replaceKey?: string;
}

/** Maximum events buffered for one instance, for starts by code and clients without another limit. */
export const defaultMaxPendingEvents = 2_000;

const onConflictValues: readonly unknown[] = ['reject', 'useExisting', 'terminateExisting'];

/** Options that decide what a start does with the run that has its id. */
type ConflictOptions = Readonly<
  Partial<Record<'id' | 'onConflict' | 'event' | 'dedupeKey' | 'dedupe', unknown>>
>;

/** Checks `onConflict` beside the other options of a start. Returns `undefined` for `reject`. */
export function readOnConflict(given: ConflictOptions): ConflictPlan | undefined {
  const { id, onConflict } = given;
  if (onConflict !== undefined && !onConflictValues.includes(onConflict)) {
    throw invalidOption('onConflict', onConflict, "'reject', 'useExisting' or 'terminateExisting'");
  }
  if (onConflict === undefined || onConflict === 'reject') return undefined;
  const keeping = (['event', 'dedupeKey', 'dedupe'] as const).find(
    (name) => given[name] !== undefined,
  );
  if (onConflict === 'terminateExisting' && keeping !== undefined) {
    throw new PerdureError(
      'INVALID_OPTION',
      `\`onConflict: 'terminateExisting'\` replaces a live instance, and \`${keeping}\` keeps it. Pass only one of them.`,
    );
  }
  if (id === undefined) {
    throw new PerdureError('INVALID_OPTION', '`onConflict` needs an `id`: a generated id is new.');
  }
  return onConflict as ConflictPlan;
}

/** Throws `INVALID_OPTION` for options of a schedule that concern an existing run: each of its runs has a new id. */
export function refuseScheduledConflict(given: unknown): void {
  const options = (given ?? {}) as Readonly<Partial<Record<'event' | 'onConflict', unknown>>>;
  const name = (['event', 'onConflict'] as const).find((one) => options[one] !== undefined);
  if (name === undefined) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `\`${name}\` in the options of a schedule: each of its runs has a new id, so there is no existing run. See \`overlap\` for runs that still run.`,
  );
}

/** Throws `INVALID_OPTION` for an event of a task run, which receives none. */
export function refuseTaskEvent(given: unknown, where: string): void {
  if ((given as { readonly event?: unknown } | null | undefined)?.event === undefined) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `\`event\` in ${where}: a task receives no events. Start an orchestration that waits for the event, or pass the value as input.`,
  );
}
