import type { CancelTrigger } from '../failures/errors.ts';
import { isFailure } from '../failures/failure.ts';
import { isLane } from '../limit-options.ts';
import { isHeaders } from './headers.ts';
import { parseJson } from './payload.ts';
import { isTagChanges, isTags } from './tags.ts';

type Check = (value: unknown) => boolean;

/** The fields that one kind of stored row must have. */
export type FieldChecks = readonly (readonly [field: string, check: Check])[];

/** Decodes the fields of a stored row. Returns `undefined` if they fail the checks. */
export function decodeFields(
  data: string,
  checks: FieldChecks,
): Record<string, unknown> | undefined {
  const fields = parseObject(data);
  if (fields === undefined) return undefined;
  for (const [field, check] of checks) if (!check(fields[field])) return undefined;
  return fields;
}

function parseObject(data: string): Record<string, unknown> | undefined {
  try {
    const fields = parseJson(data);
    return isObject(fields) ? fields : undefined;
  } catch {
    return undefined;
  }
}

export const isText: Check = (value) => typeof value === 'string';
export const isTextOrNull: Check = (value) => value === null || typeof value === 'string';
export const isTime: Check = (value) => typeof value === 'number';
/** A number of an operation or execution: 1, 2, 3, … */
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 1;

const isParent: Check = (value) =>
  isObject(value) &&
  isText(value['instanceId']) &&
  isCount(value['executionId']) &&
  isCount(value['operation']);

export const cancelTriggerField = [
  'trigger',
  (value: unknown) => value === undefined || value === 'timeout',
] as const;
/** The fields of `CancelDetails`. */
export const cancelFields: FieldChecks = [
  ['reason', isText],
  ['actor', isTextOrNull],
  cancelTriggerField,
];
const isCancelWish: Check = (value) =>
  isObject(value) && cancelFields.every(([field, check]) => check(value[field]));

const isBufferedEvent: Check = (value) =>
  isObject(value) && isText(value['name']) && isTextOrNull(value['payload']);

const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

export const isTextOrAbsent: Check = optional(isText);
export const isTimeOrAbsent: Check = optional(isTime);
export const isTrueOrAbsent: Check = optional((value) => value === true);

export const operationField = ['operation', isCount] as const;
export const nameField = ['name', isText] as const;
export const failureField = ['failure', isFailure] as const;
export const reasonField = ['reason', isText] as const;
const triggers: ReadonlySet<unknown> = new Set<CancelTrigger>([
  'cancel',
  'timeout',
  'race_lost',
  'shutdown',
  'lease_lost',
  'deleted',
]);
export const triggerField = ['trigger', (value: unknown) => triggers.has(value)] as const;
const targetKinds: ReadonlySet<unknown> = new Set([
  'activity',
  'timer',
  'event',
  'child',
  'detached',
  'step',
  'awakeable',
]);
export const keyField = ['key', isText] as const;
export const targetKindField = ['targetKind', (value: unknown) => targetKinds.has(value)] as const;
export const cancellationField = [
  'cancellation',
  (value: unknown) => value === undefined || value === 'wait' || value === 'abandon',
] as const;
export const parentField = ['parent', optional(isParent)] as const;
export const cancelField = ['cancel', optional(isCancelWish)] as const;
export const carriedField = [
  'carried',
  optional((value) => Array.isArray(value) && value.every(isBufferedEvent)),
] as const;
export const headersField = ['headers', optional(isHeaders)] as const;
export const priorityField = ['priority', isTimeOrAbsent] as const;
export const laneField = ['lane', optional(isLane)] as const;
export const timingFields: FieldChecks = [
  ['timeoutMs', isTimeOrAbsent],
  ['delayMs', isTimeOrAbsent],
  ['runAt', isTimeOrAbsent],
];
const isStartEvent: Check = (value) =>
  isBufferedEvent(value) && isTextOrAbsent((value as Record<string, unknown>)['key']);
/** The fields of `RecordedConflict`. */
export const conflictFields: FieldChecks = [
  ['event', optional(isStartEvent)],
  ['onConflict', optional((value) => value === 'useExisting' || value === 'terminateExisting')],
  ['replaceKey', isTextOrAbsent],
];
const isStateValue: Check = (value) =>
  isObject(value) && isText(value['key']) && isText(value['payload']);
export const stateField = [
  'state',
  optional((value) => Array.isArray(value) && value.every(isStateValue)),
] as const;
export const tagsField = ['tags', optional(isTags)] as const;
export const tagChangesField = ['tags', isTagChanges] as const;
const isInherited: Check = (value) =>
  isObject(value) &&
  isText(value['instanceId']) &&
  isText(value['incarnation']) &&
  isCount(value['executionId']) &&
  isCount(value['events']);
export const inheritedField = [
  'inherited',
  optional((value) => Array.isArray(value) && value.every(isInherited)),
] as const;
export const takenChildIdsField = [
  'takenChildIds',
  optional((value) => Array.isArray(value) && value.every(isText)),
] as const;
export const brokenField = [
  'broken',
  optional((value) => isObject(value) && isText(value['turnId']) && isFailure(value['failure'])),
] as const;
export const optionsField = ['options', optional(isObject)] as const;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
