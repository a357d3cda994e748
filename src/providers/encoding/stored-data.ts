import type { BufferedEvent, HistoryEvent, StoredEvent } from '../../model/event.ts';
import type { Message, StoredMessage } from '../../model/message.ts';
import type { EncodedEvent } from '../../model/admission-options.ts';
import type { StateValue } from '../../model/values/state.ts';
import {
  failure,
  fields,
  json,
  keep,
  list,
  payload,
  text,
  type Fields,
  type Treatment,
} from './treatment.ts';

// The small fields of events and messages, as JSON text. A new kind, or a new field of a kind, does not compile without a
// treatment.

type DataFields<Union extends { readonly kind: string }, Columns extends string> = {
  readonly [Kind in Union['kind']]: Fields<
    Omit<Extract<Union, { readonly kind: Kind }>, 'kind' | 'payload' | Columns>
  >;
};

const carried = list(fields<BufferedEvent>({ name: keep, payload }));
const state = list(fields<StateValue>({ key: keep, payload: text }));
const ran = { worker: keep, startedAt: keep };
const operation = keep;
const settings = {
  delayMs: keep,
  runAt: keep,
  timeoutMs: keep,
  headers: keep,
  tags: keep,
  priority: keep,
  lane: keep,
};
const name = keep;
const conflict = {
  event: fields<EncodedEvent>({ name: keep, payload, key: keep }),
  onConflict: keep,
  replaceKey: keep,
};

const eventFields: DataFields<HistoryEvent, 'at'> = {
  executionStarted: {
    name,
    version: keep,
    parent: keep,
    carried,
    cancel: keep,
    tags: keep,
    state,
    takenChildIds: keep,
    inherited: keep,
    headers: keep,
    priority: keep,
  },
  activityScheduled: { operation, name, options: keep, cancellation: keep, shielded: keep },
  timerCreated: { operation, fireAt: keep, absolute: keep },
  eventAwaited: { operation, name },
  childScheduled: {
    operation,
    name,
    version: keep,
    childId: keep,
    cancellation: keep,
    shielded: keep,
    ...settings,
    ...conflict,
  },
  detachedStarted: { operation, name, version: keep, childId: keep, ...settings, ...conflict },
  customStatusSet: { operation },
  stateSet: { operation, key: keep },
  chunkEmitted: { operation },
  awakeableCreated: { operation },
  awakeableResolved: { operation },
  awakeableRejected: { operation, failure },
  updateAccepted: { key: keep, name, deferred: keep },
  updateCompleted: { key: keep },
  updateFailed: { key: keep, failure },
  patchMarked: { id: keep },
  tagsSet: { operation, tags: keep },
  operationWithdrawn: {
    target: keep,
    targetKind: keep,
    trigger: keep,
    reason: keep,
    childId: keep,
    abandoned: keep,
    name,
  },
  stepCompleted: { operation, name, ...ran },
  stepFailed: { operation, name, failure, ...ran },
  stepRetried: { operation, name, failure, attempts: keep, retryAt: keep, ...ran },
  activityCompleted: { operation, ...ran },
  activityFailed: { operation, failure, ...ran },
  activityCanceled: { operation, trigger: keep, reason: keep, leaked: keep, ...ran },
  timerFired: { operation },
  eventReceived: { name },
  childCompleted: { operation },
  childFailed: { operation, failure },
  childCanceled: { operation, reason: keep, trigger: keep },
  detachedConfirmed: { operation },
  detachedFailed: { operation, failure },
  cancelRequested: { reason: keep, actor: keep, trigger: keep },
  executionCompleted: {},
  executionFailed: { failure },
  executionCanceled: { reason: keep, cleanupSkipped: keep },
  executionTerminated: { reason: keep, actor: keep },
  executionContinuedAsNew: { version: keep, carried, cancel: keep, tags: keep, state },
};

const messageFields: DataFields<Message, 'executionId' | 'operation'> = {
  start: {
    name,
    version: keep,
    parent: keep,
    carried,
    cancel: keep,
    tags: keep,
    state,
    takenChildIds: keep,
    headers: keep,
    priority: keep,
  },
  awakeableResolved: {},
  awakeableRejected: { failure },
  update: { key: keep, name, trace: keep },
  stepCompleted: { name, ...ran },
  stepFailed: { name, failure, ...ran },
  stepRetried: { name, failure, attempts: keep, retryAt: keep, ...ran },
  activityCompleted: ran,
  activityFailed: { failure, ...ran },
  activityCanceled: { trigger: keep, reason: keep, leaked: keep, ...ran },
  timerFired: {},
  childCompleted: {},
  childFailed: { failure },
  childCanceled: { reason: keep, trigger: keep },
  detachedConfirmed: {},
  detachedFailed: { failure },
  cancel: { reason: keep, actor: keep, trigger: keep },
  cleanupExpired: { reason: keep },
  eventRaised: { name, trace: keep },
  wake: {
    broken: fields<{ turnId: string; failure: Parameters<typeof failure>[0] }>({
      turnId: keep,
      failure,
    }),
  },
};

/** Parses the JSON text only if it can contain a field to treat. */
function dataTreatment(spec: Fields<object>): Treatment<string> {
  const active = Object.entries(spec)
    .filter(([, treatment]) => treatment !== keep)
    .map(([key]) => `"${key}":`);
  const treat = json(fields(spec));
  return (data, walk) => (active.some((key) => data.includes(key)) ? treat(data, walk) : data);
}

function byKind(
  spec: Readonly<Record<string, Fields<object>>>,
): ReadonlyMap<string, Treatment<string>> {
  return new Map(Object.entries(spec).map(([kind, data]) => [kind, dataTreatment(data)]));
}

const eventData = byKind(eventFields);
const messageData = byKind(messageFields);

/** Adds the treatment of `data`, which depends on the kind, to the treatment of the other fields. */
function withData<T extends StoredEvent | StoredMessage>(
  columns: Fields<T>,
  dataByKind: ReadonlyMap<string, Treatment<string>>,
): Treatment<T> {
  const treatColumns = fields(columns);
  return (value, walk) => {
    const treated = treatColumns(value, walk);
    const data = dataByKind.get(value.kind)?.(value.data, walk) ?? value.data;
    return data === value.data ? treated : { ...treated, data };
  };
}

/** The treatment of an event, with the columns that a read adds. */
export function eventTreatment<T extends StoredEvent>(
  columns: Fields<Omit<T, keyof StoredEvent>>,
): Treatment<T> {
  const own: Fields<StoredEvent> = { kind: keep, at: keep, data: keep, payload };
  return withData({ ...own, ...columns } as unknown as Fields<T>, eventData);
}

/** The treatment of a message, with the columns that a read adds. */
export function messageTreatment<T extends StoredMessage>(
  columns: Fields<Omit<T, keyof StoredMessage>>,
): Treatment<T> {
  const own: Fields<StoredMessage> = {
    kind: keep,
    executionId: keep,
    operation: keep,
    data: keep,
    payload,
  };
  return withData({ ...own, ...columns } as unknown as Fields<T>, messageData);
}

export const storedEvent = eventTreatment<StoredEvent>({});
export const message = messageTreatment<StoredMessage>({});
