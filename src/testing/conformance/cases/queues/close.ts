import assert from 'node:assert/strict';
import { isPerdureError } from '../../../../model/failures/errors.ts';
import type { Capability } from '../../conformance-case.ts';
import { newInstance, newProcess, newWorker, newTurn, raised } from '../../sample-data.ts';
import { only } from '../../expectations.ts';
import { newTask } from '../../task-helpers.ts';

export const close: Capability = {
  title: 'close()',
  cases: [
    {
      id: 'close/can-be-repeated',
      title: 'close() can be called repeatedly and concurrently',
      async run({ provider }) {
        await assert.doesNotReject(Promise.all([provider.close(), provider.close()]));
        await assert.doesNotReject(provider.close());
      },
    },
    {
      id: 'close/finishes-what-was-begun',
      title: 'calls made before close() are committed and resolve',
      async run({ provider }) {
        const begun = provider.createInstances([newInstance('a')]);
        await provider.close();
        assert.equal(only(await begun, 'result').kind, 'created');
      },
    },
    {
      id: 'close/refuses-what-comes-later',
      title: 'provider methods reject with CLOSED after close()',
      async run({ provider }) {
        await provider.close();
        const fetch = { max: 1, lockMs: 1, waitMs: 0 };
        const lockToken = 'x';
        const page = { after: 0, limit: 1 };
        const turn = newTurn();
        const stop = { instanceId: 'a', reason: 'x', actor: null };
        const calls: Readonly<Record<string, () => Promise<unknown>>> = {
          fetchOrchestrationItems: () => provider.fetchOrchestrationItems(fetch),
          readHistory: () => provider.readHistory([{ instanceKey: 1, executionId: 1, after: 0 }]),
          ackOrchestrationItems: () =>
            provider.ackOrchestrationItems([{ lockToken, messageKeys: [], turn }]),
          readHeldMessages: () => provider.readHeldMessages([lockToken]),
          abandonOrchestrationItems: () =>
            provider.abandonOrchestrationItems([{ lockToken, delayMs: 0, giveBackClaim: true }]),
          renewOrchestrationLocks: () => provider.renewOrchestrationLocks([lockToken], 1),
          fetchWorkItems: () => provider.fetchWorkItems(fetch),
          ackWorkItems: () =>
            provider.ackWorkItems([{ lockToken, outcome: { kind: 'completed', payload: null } }]),
          ackTurns: () =>
            provider.ackTurns([
              {
                instanceKey: 1,
                incarnation: '',
                executionId: 1,
                lastTurn: '',
                lockTokens: [],
                turn,
              },
            ]),
          declareLimits: () =>
            provider.declareLimits({
              buildId: 'a',
              definitions: [{ kind: 'task', name: 'task', limits: {} }],
            }),
          setLimits: () => provider.setLimits({ kind: 'task', name: 'task', override: null }),
          listLimits: () => provider.listLimits({ limit: 1 }),
          listLanes: () =>
            provider.listLanes({ kind: 'task', name: 'task', limit: 1, order: 'key' }),
          readStates: () => provider.readStates([{ instanceId: 'a', what: 'state', after: 0 }]),
          renewWorkItemLocks: () => provider.renewWorkItemLocks([{ lockToken }], 1),
          abandonWorkItems: () =>
            provider.abandonWorkItems([{ lockToken, delayMs: 0, giveBackClaim: true }]),
          retryWorkItems: () => provider.retryWorkItems([{ lockToken, delayMs: 0, failure: '{}' }]),
          createInstances: () => provider.createInstances([newInstance('a')]),
          enqueueMessages: () =>
            provider.enqueueMessages([{ instanceId: 'a', message: raised('x') }]),
          getInstances: () => provider.getInstances(['a']),
          listInstances: () => provider.listInstances({ filter: {}, limit: 1 }),
          countInstances: () => provider.countInstances({ filter: {}, cap: 1 }),
          listDefinitions: () => provider.listDefinitions({ afterKey: 0, limit: 1, cap: 1 }),
          listExecutions: () => provider.listExecutions({ instanceId: 'a', after: 0, limit: 1 }),
          readHeaders: () => provider.readHeaders([1]),
          requestUpdates: () =>
            provider.requestUpdates([
              { instanceId: 'a', key: 'k', name: 'x', inputHash: '', message: raised('x') },
            ]),
          readUpdates: () => provider.readUpdates([{ instanceId: 'a', key: 'k' }]),
          answerAwakeables: () =>
            provider.answerAwakeables([{ tokenHash: 'h', answerKey: 'k', message: raised('x') }]),
          readInstanceHistory: () =>
            provider.readInstanceHistory({ instanceId: 'a', executionId: 1, ...page }),
          requestCancel: () => provider.requestCancel([{ ...stop, cleanupMs: 1 }]),
          applyTimeouts: () => provider.applyTimeouts({ limit: 1, cleanupMs: 1 }),
          terminate: () => provider.terminate([{ ...stop, tree: true }]),
          markPointOfNoReturn: () => provider.markPointOfNoReturn(lockToken),
          listRunningItems: () => provider.listRunningItems('a'),
          inspectInstance: () => provider.inspectInstance({ instanceId: 'a', maxPending: 1 }),
          inspectInstances: () =>
            provider.inspectInstances({ instanceIds: ['a'], maxPending: 1, maxEvents: 1 }),
          findUnclaimedWork: () =>
            provider.findUnclaimedWork({
              runnable: [],
              activities: [],
              tasks: [],
              minWaitMs: 0,
              limit: 1,
            }),
          listChildren: () => provider.listChildren(['a']),
          getParentId: () => provider.getParentId('a'),
          deleteInstancesAtomic: () =>
            provider.deleteInstancesAtomic([{ instanceIds: ['a'], force: true }]),
          reclaimDeleted: () => provider.reclaimDeleted(1),
          pruneExecutionsAtomic: () =>
            provider.pruneExecutionsAtomic([{ instanceId: 'a', max: 1 }]),
          scanInstances: () => provider.scanInstances({ afterKey: 0, maxScanned: 1 }),
          listAudit: () => provider.listAudit({ limit: 1 }),
          queueDepths: () => provider.queueDepths(),
          definitionQueues: () => provider.definitionQueues({ cap: 1, limit: 1 }),
          systemMetrics: () => provider.systemMetrics(),
          measureInstance: () => provider.measureInstance('a'),
          takeLease: () => provider.takeLease({ name: 'x', owner: 'x', leaseMs: 1 }),
          releaseLease: () => provider.releaseLease({ name: 'x', owner: 'x' }),
          readRecord: () => provider.readRecord('x'),
          writeRecord: () => provider.writeRecord('x', 'x'),
          registerProcess: () => provider.registerProcess(newProcess('h')),
          unregisterProcess: () => provider.unregisterProcess(),
          listProcesses: () => provider.listProcesses('h'),
          takeOverClaims: () => provider.takeOverClaims(['x']),
          registerWorkers: () => provider.registerWorkers([newWorker('a')]),
          renewWorkers: () => provider.renewWorkers({ workers: [], hostId: null }),
          unregisterWorkers: () => provider.unregisterWorkers(['a']),
          listWorkers: () => provider.listWorkers(),
          createTasks: () => provider.createTasks([newTask('a')]),
          putSchedule: () => provider.putSchedule({ name: 'a', definition: '', nextAt: null }),
          setSchedulePaused: () => provider.setSchedulePaused('a', true),
          deleteSchedule: () => provider.deleteSchedule('a'),
          readStream: () =>
            provider.readStream({ instanceId: 'a', after: 0, limit: 1, maxBytes: 1 }),
          listSchedules: () => provider.listSchedules({ limit: 1 }),
          dueSchedules: () => provider.dueSchedules(1),
          tickSchedules: () => provider.tickSchedules([]),
          writeSeries: () => provider.writeSeries({ writerId: 'a', number: 1, rows: [] }),
          readSeries: () => provider.readSeries({ name: '', from: 0, before: 1, limit: 1 }),
          countStops: () => provider.countStops({ from: 0, before: 1 }),
          sweepSeries: () => provider.sweepSeries({ before: 0, limit: 1 }),
          ...(provider.transact !== undefined && {
            transact: async () =>
              provider.transact?.({ write: () => Promise.reject(new Error('It was run.')) }),
          }),
        };
        for (const [method, call] of Object.entries(calls)) {
          const outcome: unknown = await call().then(
            () => 'resolved',
            (error: unknown) => error,
          );
          assert.ok(isPerdureError(outcome, 'CLOSED'), `${method}: ${String(outcome)}`);
        }
      },
    },
    {
      id: 'close/leaves-no-alarm',
      title: 'close() cancels all alarms of the provider',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 1_000 }] });
        const waiting = store.claim({ waitMs: 60_000 });
        await store.clock.advance(1);
        assert.ok(store.clock.alarmCount > 0, 'a waiting fetch should have set an alarm');
        await store.provider.close();
        await waiting;
        assert.equal(store.clock.alarmCount, 0);
      },
    },
  ],
};
