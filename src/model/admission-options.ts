/**
 * The options by which a start finds a run instead of creating one: a key with a window, and a key that moves a run.
 * One reader, so that clients, jobs, schedules and servers accept and reject the same values.
 */
import { PerdureError } from './failures/errors.ts';
import { invalidOption, readFields } from './option-fields.ts';
import { checkDebounceKey, checkDedupeKey, checkName } from './values/names.ts';
import { randomToken } from './values/random-id.ts';
import { toMs, type Duration } from './values/duration.ts';

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
