import type { InstanceStatus } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';
import type {
  NewUpdate,
  RequestUpdateResult,
  UpdateReply,
  UpdateState,
} from '../contract/updates.ts';

/** Maximum updates of an instance without a reply. */
export const maxOpenUpdates = 2_000;
/** Replies of an instance that are kept. */
export const keptUpdates = 10_000;

/** An update as stored. */
export interface StoredUpdate {
  readonly name: string;
  readonly inputHash: string;
  /** `null`: no reply yet. `interrupted`: `failure` has the status of the instance at that time. */
  readonly outcome: UpdateReply['outcome'] | 'interrupted' | null;
  readonly reply: Payload | null;
  readonly failure: string | null;
}

/** The instance of an update. */
export interface UpdateReceiver {
  readonly status: InstanceStatus;
  /** Whether it takes no more turns. */
  readonly isOver: boolean;
}

/** Returns the state of an update. */
export function updateState(
  { outcome, reply, failure }: Pick<StoredUpdate, 'outcome' | 'reply' | 'failure'>,
  { status, isOver }: UpdateReceiver,
): UpdateState {
  if (outcome === 'interrupted') {
    return { kind: 'interrupted', status: (failure ?? status) as InstanceStatus };
  }
  if (outcome !== null) return { kind: 'replied', outcome, payload: reply, failure };
  return isOver ? { kind: 'interrupted', status } : { kind: 'pending' };
}

/** Returns the result of a request that writes nothing; `undefined` if the update is to be stored. */
export function existingUpdate(
  wanted: Pick<NewUpdate, 'name' | 'inputHash'>,
  existing: StoredUpdate | undefined,
  receiver: UpdateReceiver | undefined,
): RequestUpdateResult | undefined {
  if (receiver === undefined) return { kind: 'missing' };
  if (existing === undefined) {
    return receiver.isOver ? { kind: 'over', status: receiver.status } : undefined;
  }
  const isSame = existing.name === wanted.name && existing.inputHash === wanted.inputHash;
  return isSame ? updateState(existing, receiver) : { kind: 'reused' };
}
