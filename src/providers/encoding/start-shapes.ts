import type { NewInstance, NewMessage } from '../contract/instances.ts';
import type { NewJob } from '../contract/sessions.ts';
import type { NewTask } from '../contract/tasks.ts';
import { message } from './stored-data.ts';
import {
  fields,
  hashed,
  keep,
  movable,
  ofInstance,
  payload,
  variants,
  type Fields,
  type Treatment,
} from './treatment.ts';
import { startEvent, turn } from './turn-shapes.ts';

// The treatments of what a caller starts: instances, tasks and jobs, and the messages to them.

const newInstanceFields: Fields<NewInstance> = {
  instanceId: keep,
  incarnation: keep,
  name: keep,
  version: keep,
  inputHash: hashed,
  start: message,
  tags: keep,
  lane: keep,
  headers: keep,
  timeoutMs: keep,
  delayMs: keep,
  runAt: keep,
  dedupeKey: keep,
  dedupeMs: keep,
  debounce: keep,
  event: fields<NonNullable<NewInstance['event']>>(startEvent),
  onConflict: keep,
  isRepeat: keep,
  firstTurn: turn,
};

const instanceWithId = fields<NewInstance>(newInstanceFields, ofInstance);

/** The event may go to another instance, which holds the dedupe key. */
const instanceWithKey = fields<NewInstance>(
  {
    ...newInstanceFields,
    event: fields<NonNullable<NewInstance['event']>>(startEvent, (_, outer) => movable(outer)),
  },
  ofInstance,
);

/** A debounced start may become the start of another instance. */
const debouncedInstance = fields<NewInstance>(newInstanceFields, movable);

export const newInstance: Treatment<NewInstance> = (value, walk) => {
  if (value.debounce !== undefined) return debouncedInstance(value, walk);
  return (value.dedupeKey === undefined ? instanceWithId : instanceWithKey)(value, walk);
};

export const newMessage = fields<NewMessage>(
  { instanceId: keep, message, maxPending: keep, key: keep, bulk: keep },
  ofInstance,
);

const newTaskFields: Fields<NewTask> = {
  instanceId: keep,
  incarnation: keep,
  name: keep,
  inputHash: hashed,
  payload,
  options: keep,
  priority: keep,
  lane: keep,
  runAt: keep,
  delayMs: keep,
  expiresAt: keep,
  expiresInMs: keep,
  timeoutMs: keep,
  dedupeKey: keep,
  dedupeMs: keep,
  debounce: keep,
  onFail: keep,
  onConflict: keep,
  isRepeat: keep,
  tags: keep,
};

const taskWithId = fields<NewTask>(newTaskFields, ofInstance);

/** A debounced run may become another one. */
const debouncedTask = fields<NewTask>(newTaskFields, movable);

export const newTask: Treatment<NewTask> = (value, walk) =>
  (value.debounce === undefined ? taskWithId : debouncedTask)(value, walk);

export const newJob = variants<NewJob, 'kind'>('kind', {
  orchestration: { sessionId: keep, disposable: keep, kind: keep, instance: newInstance },
  task: { sessionId: keep, disposable: keep, kind: keep, task: newTask },
});
