import type { CompletedOutput, Hint, Provider } from '../contract/provider.ts';
import type { InstanceConditions } from '../contract/instances.ts';
import type { SchedulePlan, ScheduleWrite } from '../contract/schedules.ts';
import type {
  TransactionalWrites,
  TransactionConnection,
  TransactRequest,
} from '../contract/transactional.ts';
import type { EventView, ViewedEvent } from '../contract/views.ts';
import type { EncodeContext } from '../../model/encoding/codec.ts';
import { isEncoded } from '../../model/encoding/envelope.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import { encodeBlockedDetails } from '../../model/failures/blocked.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { platformFailure } from '../../model/failures/failure.ts';
import type { Logger } from '../../model/logger.ts';
import { byteLength } from '../../model/values/payload.ts';
import { CallOrder } from './call-order.ts';
import { forkWithMarks } from './external-forks.ts';
import { PayloadWalker, type TextSealer } from './payload-walker.ts';
import {
  heldMessages,
  instanceHold,
  orchestrationAbandon,
  orchestrationAck,
  orchestrationItem,
  transactionAck,
  turnAck,
  workItem,
  workItemAbandon,
  workItemAck,
  workItemRenewal,
  workItemRetry,
} from './queue-shapes.ts';
import {
  completedOutput,
  eventView,
  executionRecord,
  historyEvent,
  inspectedInstance,
  instanceDetails,
  instanceRecord,
  listResult,
  stateView,
} from './record-shapes.ts';
import { instanceFork, instanceRetry } from './rerun-shapes.ts';
import { schedulePlan, scheduleRecord, scheduleTick, scheduledRuns } from './schedule-shapes.ts';
import {
  abandonedResult,
  newSession,
  sessionRecord,
  shutdownResult,
  variableChanges,
} from './session-shapes.ts';
import { newInstance, newJob, newMessage, newTask } from './start-shapes.ts';
import { appendChunks, chunkPage, streamPage } from './stream-shapes.ts';
import { awakeableAnswer, newUpdate, requestUpdateResult, updateState } from './update-shapes.ts';
import { storedEvent } from './stored-data.ts';
import { list, optional } from './treatment.ts';
import { platform } from '../../model/platform.ts';

/** A renewal must not wait longer for its heartbeats, because its leases expire. */
const maxHeartbeatMs = 1_000;

/**
 * A store whose payloads are encoded. Wraps another provider: encodes what it writes and decodes what it reads, so that
 * runtime and client work with plain text. The `*-shapes.ts` files decide which fields are payloads.
 *
 * - E1. A write whose payload cannot be encoded is not made. Other items of its batch are. The error is `CODEC_FAILED`.
 * - E2. A read never fails because of a codec. A payload that cannot be decoded is returned as a text that only
 *   `decodePayload`, `decodeEvent` and `decodeMessage` accept, and they throw `CODEC_FAILED`.
 * - E3. Calls that only explain something (a hold-back, a retry, a heartbeat) are made even if their text cannot be encoded,
 *   without that text.
 * - E4. Messages to one instance are sent in the order of the calls, however long each takes to encode.
 */
export function encodingProvider(
  inner: Provider,
  {
    sealer,
    logger,
    external,
  }: {
    readonly sealer: TextSealer;
    readonly logger: Logger;
    /** The store of large payloads, if there is one. */
    readonly external?: ExternalPayloadStore | undefined;
  },
): Provider {
  const walker = new PayloadWalker(sealer);
  const order = new CallOrder();
  const { decode, encode } = walker;
  const warn = (error: unknown, what: string): void =>
    logger.warn({ error }, `${what} was stored without its text, because the codec failed`);

  const writes = (target: TransactionalWrites): TransactionalWrites => ({
    createInstances: (instances) =>
      walker.writeEach(instances, newInstance, {
        call: (encoded) => target.createInstances(encoded),
        failed: (error) => ({ kind: 'refused', error }),
      }),
    createTasks: (tasks) =>
      walker.writeEach(tasks, newTask, {
        call: (encoded) => target.createTasks(encoded),
        failed: (error) => ({ kind: 'refused', error }),
      }),
    enqueueMessages: (messages) =>
      order.run(
        messages.map(({ instanceId }) => instanceId),
        encode(messages, list(newMessage)),
        (encoded) => target.enqueueMessages(encoded),
      ),
    requestCancel: (requests) => target.requestCancel(requests),
  });

  return {
    name: inner.name,
    ...(inner.clock !== undefined && { clock: inner.clock }),
    ...(inner.clockIsEstimate !== undefined && { clockIsEstimate: inner.clockIsEstimate }),
    ...(inner.reopening !== undefined && { reopening: inner.reopening }),
    hints: (listener) => inner.hints(decodeHints(walker, listener)),
    ...(inner.within !== undefined && {
      within: (connection: TransactionConnection) =>
        writes((inner as Required<Provider>).within(connection)),
    }),
    ...(inner.transact !== undefined && {
      transact: (request: TransactRequest) =>
        (inner as Required<Provider>).transact({
          ...request,
          write: async (tx) => encode(await request.write(tx), transactionAck),
        }),
    }),
    close: async () => {
      // Calls that were made before are still being encoded.
      await walker.idle();
      await inner.close();
    },

    ...writes(inner),

    // Orchestrator queue
    fetchOrchestrationItems: async (params) =>
      decode(await inner.fetchOrchestrationItems(params), list(orchestrationItem)),
    readHistory: async (params) => decode(await inner.readHistory(params), list(list(storedEvent))),
    readHeldMessages: async (lockTokens) =>
      decode(await inner.readHeldMessages(lockTokens), list(optional(heldMessages))),
    ackOrchestrationItems: (acks) =>
      walker.writeEach(acks, orchestrationAck, {
        call: (encoded) => inner.ackOrchestrationItems(encoded),
        failed: (error) => ({ ok: false, error }),
      }),
    abandonOrchestrationItems: async (abandons) =>
      inner.abandonOrchestrationItems(
        await walker.encodeEach(abandons, orchestrationAbandon, (abandon, error) => {
          warn(error, 'the reason of a blocked instance');
          return abandon.blocked === undefined
            ? abandon
            : { ...abandon, blocked: withoutReason(abandon.blocked) };
        }),
      ),
    holdInstances: async (holds) =>
      inner.holdInstances(
        await walker.encodeEach(holds, instanceHold, (hold, error) => {
          warn(error, 'the reason of a blocked instance');
          return { ...hold, blocked: withoutReason(hold.blocked) };
        }),
      ),
    renewOrchestrationLocks: (...args) => inner.renewOrchestrationLocks(...args),

    // Worker queue
    fetchWorkItems: async (params) => decode(await inner.fetchWorkItems(params), list(workItem)),
    ackWorkItems: (acks) =>
      walker.writeEach(acks, workItemAck, {
        call: (encoded) => inner.ackWorkItems(encoded),
        failed: (error) => ({ ok: false, error }),
      }),
    ackTurns: (acks) =>
      walker.writeEach(acks, turnAck, {
        call: (encoded) => inner.ackTurns(encoded),
        failed: (error) => ({ ok: false, error }),
      }),
    renewWorkItemLocks: async (renewals, extendMs) =>
      inner.renewWorkItemLocks(
        await walker.encodeEach(
          renewals,
          workItemRenewal,
          ({ instanceId, lockToken }, error) => {
            warn(error, 'a heartbeat');
            return { lockToken, ...(instanceId !== undefined && { instanceId }) };
          },
          maxHeartbeatMs,
        ),
        extendMs,
      ),
    abandonWorkItems: async (abandons) =>
      inner.abandonWorkItems(
        await walker.encodeEach(abandons, workItemAbandon, (abandon, error) => {
          warn(error, 'the explanation of a work item');
          return { ...abandon, explanation: unencodedFailure(error) };
        }),
      ),
    retryWorkItems: async (retries) =>
      inner.retryWorkItems(
        await walker.encodeEach(retries, workItemRetry, (retry, error) => {
          warn(error, 'the failure of an attempt');
          return { ...retry, failure: unencodedFailure(error) };
        }),
      ),

    // Instances
    getInstances: async (...args) =>
      decode(await inner.getInstances(...args), list(optional(instanceRecord))),
    listInstances: async (params) => {
      if (!sealer.isPlain) assertNoText(params.filter);
      return decode(await inner.listInstances(params), listResult);
    },
    countInstances: async (params) => {
      if (!sealer.isPlain) assertNoText(params.filter);
      return inner.countInstances(params);
    },
    listDefinitions: (params) => inner.listDefinitions(params),
    listExecutions: async (params) =>
      decode(await inner.listExecutions(params), list(executionRecord)),
    readHeaders: (instanceKeys) => inner.readHeaders(instanceKeys),
    readInstanceHistory: async (params) =>
      decode(await inner.readInstanceHistory(params), list(historyEvent)),

    // Cancellation
    terminate: (requests) => inner.terminate(requests),
    applyTimeouts: (request) => inner.applyTimeouts(request),
    markPointOfNoReturn: (lockToken) => inner.markPointOfNoReturn(lockToken),
    listRunningItems: (instanceId) => inner.listRunningItems(instanceId),

    // Management
    listChildren: (instanceIds) => inner.listChildren(instanceIds),
    getParentId: (instanceId) => inner.getParentId(instanceId),
    deleteInstancesAtomic: (trees) => inner.deleteInstancesAtomic(trees),
    reclaimDeleted: (maxRows) => inner.reclaimDeleted(maxRows),
    pruneExecutionsAtomic: (prunes) => inner.pruneExecutionsAtomic(prunes),
    scanInstances: (params) => inner.scanInstances(params),
    listAudit: (params) => inner.listAudit(params),
    queueDepths: () => inner.queueDepths(),
    definitionQueues: (params) => inner.definitionQueues(params),
    systemMetrics: () => inner.systemMetrics(),
    measureInstance: (instanceId) => inner.measureInstance(instanceId),
    takeLease: (lease) => inner.takeLease(lease),
    releaseLease: (lease) => inner.releaseLease(lease),
    readRecord: (name) => inner.readRecord(name),
    writeRecord: (...args) => inner.writeRecord(...args),

    // Pauses, processes and workers
    pauseInstances: (requests) => inner.pauseInstances(requests),
    resumeInstances: (requests) => inner.resumeInstances(requests),
    pauseDefinitions: (requests) => inner.pauseDefinitions(requests),
    resumeDefinitions: (requests) => inner.resumeDefinitions(requests),
    listPausedDefinitions: () => inner.listPausedDefinitions(),
    registerWorkers: (workers) => inner.registerWorkers(workers),
    renewWorkers: (params) => inner.renewWorkers(params),
    unregisterWorkers: (workerIds) => inner.unregisterWorkers(workerIds),
    listWorkers: () => inner.listWorkers(),
    registerProcess: (process) => inner.registerProcess(process),
    unregisterProcess: () => inner.unregisterProcess(),
    listProcesses: (hostId) => inner.listProcesses(hostId),
    takeOverClaims: (processIds) => inner.takeOverClaims(processIds),
    writeSeries: (batch) => inner.writeSeries(batch),
    readSeries: (params) => inner.readSeries(params),
    countStops: (params) => inner.countStops(params),
    sweepSeries: (params) => inner.sweepSeries(params),

    // Schedules
    putSchedule: async (write) => {
      const stored = await inner.putSchedule(await encodeSchedule(walker, inner, write));
      return decode(stored, optional(scheduleRecord));
    },
    setSchedulePaused: (...args) => inner.setSchedulePaused(...args),
    deleteSchedule: (...args) => inner.deleteSchedule(...args),
    listSchedules: async (params) =>
      decode(await inner.listSchedules(params), list(scheduleRecord)),
    dueSchedules: async (max) => {
      const { due, ...others } = await inner.dueSchedules(max);
      return { ...others, due: await decode(due, list(scheduleRecord)) };
    },
    tickSchedules: (ticks) =>
      walker.writeEach(ticks, scheduleTick, {
        call: (encoded) => inner.tickSchedules(encoded),
        failed: (error) => {
          logger.error({ error }, 'firing a schedule failed because of the codec, will retry');
          return false;
        },
      }),
    startScheduledRuns: async (runs) => inner.startScheduledRuns(await encode(runs, scheduledRuns)),

    // Sessions and jobs
    openSession: async (session) =>
      decode(await inner.openSession(await encode(session, newSession)), sessionRecord),
    renewSessions: async (sessionIds) =>
      decode(await inner.renewSessions(sessionIds), list(optional(sessionRecord))),
    submitJobs: (jobs) =>
      walker.writeEach(jobs, newJob, {
        call: (encoded) => inner.submitJobs(encoded),
        failed: (error) => ({ kind: 'refused', error }),
      }),
    takeJobs: (jobs) => inner.takeJobs(jobs),
    abandonJobs: (jobs) => inner.abandonJobs(jobs),
    shutdownSession: async (request) =>
      decode(await inner.shutdownSession(request), shutdownResult),
    settleSession: async (...args) =>
      decode(await inner.settleSession(...args), optional(sessionRecord)),
    dueSessions: (limit) => inner.dueSessions(limit),
    claimAbandoned: async (request) =>
      decode(await inner.claimAbandoned(request), list(abandonedResult)),
    settleAbandoned: (settled) => inner.settleAbandoned(settled),
    getSessions: async (sessionIds) =>
      decode(await inner.getSessions(sessionIds), list(optional(sessionRecord))),
    listSessions: async (params) => decode(await inner.listSessions(params), list(sessionRecord)),
    setSessionVariables: async (request) =>
      decode(
        await inner.setSessionVariables(await encode(request, variableChanges)),
        optional(sessionRecord),
      ),
    getJobBindings: (jobs) => inner.getJobBindings(jobs),
    listJobs: (params) => inner.listJobs(params),

    // Updates and awakeables
    requestUpdates: (requests) =>
      order.run(
        requests.map(({ instanceId }) => instanceId),
        encode(requests, list(newUpdate)),
        async (encoded) => decode(await inner.requestUpdates(encoded), list(requestUpdateResult)),
      ),
    readUpdates: async (updates) => decode(await inner.readUpdates(updates), list(updateState)),
    answerAwakeables: async (answers) =>
      inner.answerAwakeables(await encode(answers, list(awakeableAnswer))),

    // Streams
    appendChunks: async (requests) =>
      inner.appendChunks(await encode(requests, list(appendChunks))),
    readChunks: async (params) => decode(await inner.readChunks(params), chunkPage),
    readStream: async (params) => decode(await inner.readStream(params), optional(streamPage)),

    // Retries, forks and reads for operators
    findUnclaimedWork: (params) => inner.findUnclaimedWork(params),
    retryInstances: (retries) =>
      walker.writeEach(retries, instanceRetry, {
        call: (encoded) => inner.retryInstances(encoded),
        failed: (error) => ({ kind: 'refused', error }),
      }),
    forkInstances: (forks) =>
      walker.writeEach(forks, instanceFork, {
        call: (encoded) =>
          external === undefined
            ? inner.forkInstances(encoded)
            : forkWithMarks(external, inner, encoded),
        failed: (error) => ({ kind: 'refused', error }),
      }),
    inspectInstance: async (params) =>
      decode(await inner.inspectInstance(params), optional(instanceDetails)),
    inspectTurn: (instanceId) => inner.inspectTurn(instanceId),
    // As they are stored: the search is for what the codec or the external store has left there.
    findStoredTexts: (params) => inner.findStoredTexts(params),
    inspectInstances: async (params) =>
      decode(await inner.inspectInstances(params), list(optional(inspectedInstance))),
    readEvents: async ({ headBytes, ...params }) => {
      // A part of an encoded payload cannot be decoded.
      const view = await decode(await inner.readEvents(params), optional(eventView));
      return view && withHeads(view, headBytes);
    },
    readTree: (params) => inner.readTree(params),
    readVersions: (instanceIds) => inner.readVersions(instanceIds),
    declareLimits: (request) => inner.declareLimits(request),
    setLimits: (request) => inner.setLimits(request),
    listLimits: (params) => inner.listLimits(params),
    listLanes: (params) => inner.listLanes(params),
    readStates: async (requests) =>
      decode(await inner.readStates(requests), list(optional(stateView))),
  };
}

/** Decodes the outputs of completed instances. A hint can arrive late, and without outputs. */
function decodeHints(walker: PayloadWalker, listener: (hint: Hint) => void): (hint: Hint) => void {
  return (hint) => {
    if (hint.kind !== 'finished' || hint.outputs === undefined) listener(hint);
    else void decodeOutputs(walker, hint, hint.outputs).then(listener);
  };
}

async function decodeOutputs(
  walker: PayloadWalker,
  hint: Extract<Hint, { readonly kind: 'finished' }>,
  outputs: ReadonlyMap<string, CompletedOutput>,
): Promise<Hint> {
  const values = await walker.decode([...outputs.values()], list(completedOutput));
  const readable = [...outputs.keys()].flatMap((id, index) => {
    const value = values[index];
    const isReadable = value !== undefined && (value.output === null || !isEncoded(value.output));
    return isReadable ? [[id, value] as const] : [];
  });
  return { ...hint, outputs: new Map(readable) };
}

/**
 * Encodes a schedule. A plan is computed in the transaction, where nothing can be awaited. It is computed before with the
 * time of this process, which can differ only in its times, so the encoded texts are known by then.
 */
async function encodeSchedule(
  walker: PayloadWalker,
  inner: Provider,
  write: ScheduleWrite,
): Promise<ScheduleWrite> {
  const context: EncodeContext = { schedule: write.name };
  if (!('plan' in write)) {
    const { definition, nextAt } = write;
    const encoded = await walker.encode({ definition, nextAt }, schedulePlan, context);
    return { ...write, ...encoded };
  }
  const expected = write.plan(inner.clock?.now() ?? platform.now());
  const texts =
    expected === undefined ? undefined : await walker.prepare(expected, schedulePlan, context);
  const plan = (nowMs: number): SchedulePlan | undefined => {
    const planned = write.plan(nowMs);
    if (planned === undefined) return undefined;
    const encoded = texts?.(planned);
    if (encoded === undefined) {
      throw new PerdureError(
        'CODEC_FAILED',
        `The input of schedule ${JSON.stringify(write.name)} could not be encoded: its plan changed. Try again.`,
      );
    }
    return encoded;
  };
  return { ...write, plan };
}

/** Cuts payloads as the store would have cut plain ones. */
function withHeads(view: EventView, headBytes: number | undefined): EventView {
  const events = view.events.map((event): ViewedEvent => {
    const { payload } = event;
    if (payload === null) return event;
    const payloadBytes = byteLength(payload);
    if (headBytes === 0) return { ...event, payloadBytes, payload: null };
    const isCut = headBytes !== undefined && payloadBytes > headBytes && !isEncoded(payload);
    return { ...event, payloadBytes, payload: isCut ? headOf(payload, headBytes) : payload };
  });
  return { ...view, events };
}

/** The first bytes of a text, cut between characters. */
function headOf(text: string, bytes: number): string {
  const head = new TextEncoder().encode(text.slice(0, bytes)).subarray(0, bytes);
  // With `stream`, an incomplete character at the end is left out.
  return new TextDecoder().decode(head, { stream: true });
}

/** Throws for a filter on text that the store cannot read. */
function assertNoText({ failureText }: InstanceConditions): void {
  if (failureText === undefined) return;
  throw new PerdureError(
    'INVALID_INPUT',
    'Cannot filter by `failureText`: the messages of failures are encoded. Filter by `failureCode`.',
  );
}

function withoutReason<Reason extends { readonly reason: string; readonly details?: string }>(
  blocked: Reason,
): Reason {
  return {
    ...blocked,
    reason: 'The reason could not be encoded. See the code and the logs of the worker.',
    details: blocked.details ?? encodeBlockedDetails({ code: 'CODEC_FAILED' }),
  };
}

/** Stands for a failure whose text could not be encoded. */
function unencodedFailure(error: PerdureError): string {
  return JSON.stringify(platformFailure('CODEC_FAILED', error.message));
}
