import type { SealContext } from '../../model/encoding/codec.ts';
import { isUndecoded, reasonOf } from '../../model/encoding/envelope.ts';
import { isSealedFailure, type SealedFailure } from '../../model/encoding/sealed-failure.ts';
import { isFailure, type Failure } from '../../model/failures/failure.ts';
import { parseJson } from '../../model/values/payload.ts';

/**
 * A walk over the texts of a value. It runs twice: the first walk collects the texts, the second replaces them by the results
 * of the codec. Both visit the same texts in the same order.
 */
export interface Walk {
  readonly direction: 'encode' | 'decode';
  /** Whether stored texts stay readable. */
  readonly isPlain: boolean;
  context: SealContext;
  /** Returns what replaces a text. In the first walk: the text itself. */
  readonly text: (text: string) => string;
  /** Returns the hash of a text. Only when encoding. */
  readonly hash: (text: string) => string;
}

/** Replaces the texts of a value. Returns the same value if there are none. */
export type Treatment<T> = (value: T, walk: Walk) => T;

/** Stored as it is: ids, names, times, tags, headers, reasons. */
export const keep = <T>(value: T): T => value;

/** A treatment for every field of a type, so that a new field does not compile without one. */
export type Fields<T> = {
  readonly [Key in keyof T]-?: Treatment<Exclude<T[Key], undefined>> | typeof keep;
};

/** Treats the fields of an object. */
export function fields<T extends object>(
  spec: Fields<T>,
  contextOf?: (value: T, outer: SealContext) => SealContext | undefined,
): Treatment<T> {
  const active = (Object.keys(spec) as (keyof T)[]).filter((key) => spec[key] !== keep);
  return (value, walk) => {
    const outer = walk.context;
    walk.context = contextOf?.(value, outer) ?? outer;
    let copy: T | undefined;
    for (const key of active) {
      const before = value[key];
      if (before === undefined) continue;
      const after = (spec[key] as Treatment<T[keyof T]>)(before, walk);
      if (after === before) continue;
      copy ??= { ...value };
      copy[key] = after;
    }
    walk.context = outer;
    return copy ?? value;
  };
}

/** The context of payloads that belong to the instance of a value. */
export const ofInstance = ({
  instanceId,
}: {
  readonly instanceId?: string | undefined;
}): SealContext | undefined => (instanceId === undefined ? undefined : { instanceId });

/** The context of payloads of an instance that the store may pass to another instance. */
export const movable = ({ instanceId }: { readonly instanceId?: string }): SealContext =>
  instanceId === undefined ? {} : { keyInstanceId: instanceId };

/** The fields of every variant of a union, by the value of the field that tells them apart. */
export type Variants<T extends object, Tag extends keyof T> = {
  readonly [Value in T[Tag] & string]: Fields<Extract<T, { readonly [Key in Tag]: Value }>>;
};

/** Treats the fields of a variant of a union. */
export function variants<T extends object, Tag extends keyof T>(
  tag: Tag,
  spec: Variants<T, Tag>,
): Treatment<T> {
  const treatments = Object.fromEntries(
    Object.entries(spec).map(([value, own]) => [value, fields(own as Fields<T>)]),
  ) as Record<T[Tag] & string, Treatment<T>>;
  return (value, walk) => treatments[value[tag] as T[Tag] & string](value, walk);
}

/** Treats each element of an array. */
export function list<T>(element: Treatment<T>): Treatment<readonly T[]> {
  return (values, walk) => {
    const treated = values.map((value) => element(value, walk));
    return treated.some((value, index) => value !== values[index]) ? treated : values;
  };
}

/**
 * Treats texts that stay in the database, because the store bounds their bytes: the chunks of a stream. The store would count
 * references of external payloads instead. The instance still chooses the key.
 */
export function bounded<T>(treatment: Treatment<T>): Treatment<T> {
  return (value, walk) => {
    const outer = walk.context;
    if (outer.instanceId !== undefined) walk.context = { keyInstanceId: outer.instanceId };
    const treated = treatment(value, walk);
    walk.context = outer;
    return treated;
  };
}

/** Treats each value of a map by name. */
export function record<T>(element: Treatment<T>): Treatment<Readonly<Record<string, T>>> {
  return (values, walk) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, element(value, walk)]));
}

/** Leaves `null` alone. */
export function nullable<T>(treatment: Treatment<T>): Treatment<T | null> {
  return (value, walk) => (value === null ? null : treatment(value, walk));
}

/** Leaves `undefined` alone. */
export function optional<T>(treatment: Treatment<T>): Treatment<T | undefined> {
  return (value, walk) => (value === undefined ? undefined : treatment(value, walk));
}

/** A text: JSON, or words of Perdure. */
export const text: Treatment<string> = (value, walk) => walk.text(value);

/** A payload. */
export const payload: Treatment<string | null> = nullable(text);

/** The hash of an input. Short inputs are their own hash. */
export const hashed: Treatment<string> = (value, walk) =>
  walk.direction === 'encode' ? walk.hash(value) : value;

/** Which parts of a failure stay readable, so that lists, `why` and metrics can tell failures apart. */
const failureFields: { readonly [Key in keyof Failure]-?: 'visible' | 'hidden' } = {
  name: 'visible',
  code: 'visible',
  nonRetryable: 'visible',
  platform: 'visible',
  attempts: 'visible',
  message: 'hidden',
  stack: 'hidden',
  details: 'hidden',
  cause: 'hidden',
};

const placeholder = 'The message is encoded. Open the store with its codec.';

/** A failure as an object. */
export const failure: Treatment<Failure> = (value, walk) =>
  walk.direction === 'encode' ? sealFailure(value, walk) : openFailure(value, walk);

function sealFailure(value: Failure, walk: Walk): Failure {
  if (walk.isPlain) return value;
  // The failure of a codec has no payload, and must be stored while the codec fails.
  if (isSealedFailure(value) || (value.platform === true && value.code === 'CODEC_FAILED'))
    return value;
  const parts = (kind: 'visible' | 'hidden') =>
    Object.fromEntries(
      Object.entries(value).filter(
        // A field of a newer version is hidden.
        ([key]) => (failureFields[key as keyof Failure] ?? 'hidden') === kind,
      ),
    );
  const sealed = walk.text(JSON.stringify(parts('hidden')));
  return { ...parts('visible'), message: placeholder, sealed } as SealedFailure;
}

function openFailure(value: Failure, walk: Walk): Failure {
  if (!isSealedFailure(value)) return value;
  const opened = walk.text(value.sealed);
  if (isUndecoded(opened)) return { ...value, message: reasonOf(opened) };
  const hidden = parseObject(opened);
  if (hidden === undefined) return value;
  const { sealed: _, ...visible } = value;
  return { ...visible, ...hidden };
}

/** A failure as JSON text. Empty or damaged text stays as it is. */
export const failureText: Treatment<string | null> = (value, walk) => {
  if (value === null || value === '') return value;
  const parsed = parseObject(value);
  if (!isFailure(parsed)) return value;
  const treated = failure(parsed, walk);
  return treated === parsed ? value : JSON.stringify(treated);
};

/** A failure as JSON text that is always given. */
export const givenFailureText = failureText as Treatment<string>;

/** Treats an object that is stored as JSON text. Damaged text stays as it is. */
export function json<T extends object>(treatment: Treatment<T>): Treatment<string> {
  return (value, walk) => {
    const parsed = parseObject(value);
    if (parsed === undefined) return value;
    const treated = treatment(parsed as T, walk);
    return treated === parsed ? value : JSON.stringify(treated);
  };
}

function parseObject(value: string): Record<string, unknown> | undefined {
  try {
    const parsed = parseJson(value);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
