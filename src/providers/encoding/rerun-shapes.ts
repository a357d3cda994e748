import type { StateValue } from '../../model/values/state.ts';
import type { InstanceFork, InstanceRetry, RerunStart } from '../contract/reruns.ts';
import { message, storedEvent } from './stored-data.ts';
import { fields, hashed, keep, list, ofInstance, payload, text } from './treatment.ts';
import { turn } from './turn-shapes.ts';

// The treatments of retries and forks.

const rerunStart = fields<RerunStart>({
  kept: fields<NonNullable<RerunStart['kept']>>({ first: storedEvent, length: keep }),
  messages: list(message),
  turn,
  state: list(fields<StateValue>({ key: keep, payload: text })),
  cancel: keep,
});

export const instanceRetry = fields<InstanceRetry>(
  {
    source: keep,
    version: keep,
    start: rerunStart,
    taskInput: payload,
    audit: keep,
    bulkKey: keep,
  },
  ({ source }) => ofInstance(source),
);

export const instanceFork = fields<InstanceFork>(
  {
    source: keep,
    instanceId: keep,
    incarnation: keep,
    name: keep,
    version: keep,
    inputHash: hashed,
    forkedFrom: keep,
    tags: keep,
    start: rerunStart,
    isRepeat: keep,
    audit: keep,
  },
  ofInstance,
);
