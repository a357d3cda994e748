import type {
  AwakeableAnswer,
  NewUpdate,
  RequestUpdateResult,
  UpdateState,
} from '../contract/updates.ts';
import { message } from './stored-data.ts';
import {
  failureText,
  fields,
  hashed,
  keep,
  ofInstance,
  payload,
  variants,
  type Treatment,
  type Variants,
} from './treatment.ts';

// The treatments of updates and awakeables.

export const newUpdate = fields<NewUpdate>(
  { instanceId: keep, key: keep, name: keep, inputHash: hashed, message },
  ofInstance,
);

const updateStates: Variants<UpdateState, 'kind'> = {
  pending: { kind: keep },
  replied: { kind: keep, outcome: keep, payload, failure: failureText },
  interrupted: { kind: keep, status: keep },
  missing: { kind: keep },
};

export const updateState = variants<UpdateState, 'kind'>('kind', updateStates);

export const requestUpdateResult = variants<RequestUpdateResult, 'kind'>('kind', {
  ...updateStates,
  over: { kind: keep, status: keep },
  reused: { kind: keep },
  full: { kind: keep },
});

export const awakeableAnswer = fields<AwakeableAnswer>({
  tokenHash: keep,
  answerKey: keep,
  message: message as unknown as Treatment<AwakeableAnswer['message']>,
});
