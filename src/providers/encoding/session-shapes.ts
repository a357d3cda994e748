import type { EncodeContext } from '../../model/encoding/codec.ts';
import type {
  AbandonedResult,
  NewSession,
  SessionRecord,
  ShutdownResult,
} from '../contract/sessions.ts';
import {
  fields,
  keep,
  nullable,
  optional,
  payload,
  record,
  text,
  type Treatment,
} from './treatment.ts';

// The treatments of sessions.

const ofSession = ({ sessionId }: { readonly sessionId: string }): EncodeContext => ({ sessionId });

export const newSession = fields<NewSession>(
  { sessionId: keep, label: keep, owner: keep, leaseMs: keep, variables: record(text) },
  ofSession,
);

/** The changes of session variables. */
export const variableChanges = fields<{
  readonly sessionId: string;
  readonly set: Readonly<Record<string, string | null>>;
}>({ sessionId: keep, set: record(nullable(text)) }, ofSession);

export const sessionRecord = fields<SessionRecord>({
  sessionKey: keep,
  sessionId: keep,
  label: keep,
  owner: keep,
  state: keep,
  leaseMs: keep,
  createdAt: keep,
  expiresAt: keep,
  endedAt: keep,
  end: keep,
  variables: record(text),
  openJobs: keep,
  withheld: keep,
});

export const shutdownResult = fields<ShutdownResult>({
  kind: keep,
  session: optional(sessionRecord) as Treatment<SessionRecord>,
});

export const abandonedResult = fields<AbandonedResult>({
  key: keep,
  kind: keep,
  name: keep,
  output: payload,
  attempt: keep,
});
