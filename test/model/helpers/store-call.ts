import type { Provider } from '../../../src/providers/contract/provider.ts';

/** The store methods that write or claim. */
export const writeMethods = [
  'createInstances',
  'enqueueMessages',
  'requestCancel',
  'terminate',
  'pauseInstances',
  'resumeInstances',
  'deleteInstancesAtomic',
  'pruneExecutionsAtomic',
  'retryInstances',
  'takeOverClaims',
  'markPointOfNoReturn',
  'fetchOrchestrationItems',
  'ackOrchestrationItems',
  'abandonOrchestrationItems',
  'renewOrchestrationLocks',
  'fetchWorkItems',
  'ackWorkItems',
  'ackTurns',
  'renewWorkItemLocks',
  'abandonWorkItems',
  'retryWorkItems',
] as const;

export type WriteMethod = (typeof writeMethods)[number];

/** A committed call with its result. */
export type StoreCall = {
  readonly [M in WriteMethod]: {
    readonly method: M;
    readonly args: Parameters<Provider[M]>;
    readonly result: Awaited<ReturnType<Provider[M]>>;
  };
}[WriteMethod];

/** Pairs requests with results. */
export function pairs<Asked, Answered>(
  asked: readonly Asked[],
  answered: readonly Answered[],
): readonly (readonly [Asked, Answered])[] {
  return asked.flatMap((one, index) => {
    const answer = answered[index];
    return answer === undefined ? [] : [[one, answer] as const];
  });
}

// Properties that a trace omits.
const omittedKeys: ReadonlySet<string> = new Set([
  'incarnation',
  'rootIncarnation',
  'audit',
  'inputHash',
  'start',
  'options',
  'name',
  'version',
  'turnId',
  'lastTurn',
  'buildId',
  'runnable',
  'signal',
  'firstEventId',
  'nowMs',
  'at',
  'messageKey',
  'messageKeys',
  'orchestration',
  'instanceKey',
  'payload',
]);

/** A call and its result in one line. */
export function describeCall({ method, args, result }: StoreCall): string {
  const omit = (key: string, value: unknown): unknown => {
    if (omittedKeys.has(key) || (Array.isArray(value) && value.length === 0 && key !== ''))
      return undefined;
    if (value instanceof Error) return value.message;
    return (key === 'data' && typeof value === 'string' ? JSON.parse(value) : value) as unknown;
  };
  return `${method} ${JSON.stringify(args[0], omit)} -> ${JSON.stringify(result, omit)}`.replaceAll(
    '"',
    '',
  );
}
