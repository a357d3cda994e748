import { expect, it, vi } from 'vitest';
import { silentLogger } from '../../model/logger.ts';
import type { NewProcess, ProcessRecord } from '../../providers/contract/processes.ts';
import type { NewWorker } from '../../providers/contract/workers.ts';
import { newWorker } from '../../testing/conformance/sample-data.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import type { HostProcess, HostProcesses } from './host-processes.ts';
import { WorkerRegistration, type RegistrationStore } from './worker-registration.ts';

const self = { pid: 1, startTime: '100' };

/** A store with the given processes. Records the calls. */
function storeOf(others: readonly ProcessRecord[] = [], storeClock?: FakeClock) {
  const calls: string[] = [];
  const processes: NewProcess[] = [];
  const workers = new Map<string, NewWorker>();
  let left = others;
  const store: RegistrationStore = {
    ...(storeClock !== undefined && { clock: storeClock }),
    async registerProcess(process) {
      calls.push('register');
      processes.push(process);
    },
    unregisterProcess: async () => void calls.push('unregister'),
    async listProcesses() {
      calls.push('list');
      return left;
    },
    async takeOverClaims(processIds) {
      calls.push(`take over ${processIds.join(' ')}`);
      left = left.filter(({ processId }) => !processIds.includes(processId));
      return 1;
    },
    async registerWorkers(list) {
      calls.push(`add ${list.map(({ workerId }) => workerId).join(' ')}`);
      for (const worker of list) workers.set(worker.workerId, worker);
    },
    async renewWorkers(params) {
      const ids = params.workers.map(({ workerId }) => workerId);
      calls.push(`renew ${ids.join(' ')}`);
      return { unknown: ids.filter((id) => !workers.has(id)), processes: left };
    },
    async unregisterWorkers(ids) {
      calls.push(`remove ${ids.join(' ')}`);
      for (const id of ids) workers.delete(id);
    },
    listWorkers: () => Promise.reject(new Error('not used')),
  };
  const addProcess = (process: ProcessRecord): void => void (left = [...left, process]);
  return { store, calls, processes, workers, addProcess };
}

function hostWith(dead: (process: HostProcess) => boolean): HostProcesses {
  return { hostId: 'here', self, hasDied: dead };
}

const living = hostWith(() => false);

function registrationOf(
  store: RegistrationStore,
  host: HostProcesses | null,
  { workerId = 'w', leaseMs = 30_000, clock = new FakeClock() } = {},
) {
  const describe = () => newWorker(workerId);
  const worker = { workerId, heartbeatMs: 10_000, leaseMs, describe };
  const params = { store, logger: silentLogger, worker, clock };
  return { registration: new WorkerRegistration({ ...params, host }), clock };
}

it('start() registers process and worker, and takes over the claims of dead processes', async () => {
  const { store, calls, processes } = storeOf([
    { processId: 'a', pid: 2, startTime: '1' },
    { processId: 'b', pid: 3, startTime: '1' },
  ]);
  const host = hostWith(({ pid }) => pid === 3);
  const { registration } = registrationOf(store, host);
  registration.start();
  await vi.waitUntil(() => calls.length === 4);
  await registration.stop();
  expect(calls).toEqual(['register', 'add w', 'list', 'take over b', 'remove w', 'unregister']);
  expect(processes).toEqual([{ hostId: 'here', ...self, leaseMs: 30_000 }]);
});

it('a dead process is detected within a second, without polling the store', async () => {
  const dead = new Set<number>();
  const { store, calls } = storeOf([{ processId: 'a', pid: 2, startTime: '1' }]);
  const host = hostWith(({ pid }) => dead.has(pid));
  const { registration, clock } = registrationOf(store, host);
  registration.start();
  await vi.waitUntil(() => calls.length === 3);
  await clock.advance(1_000);
  await clock.advance(1_000);
  expect(calls).toEqual(['register', 'add w', 'list']);
  dead.add(2);
  await clock.advance(1_000);
  await vi.waitUntil(() => calls.includes('take over a'));
  await registration.stop();
});

it('a process that registers and dies between two checks is taken over at the next one', async () => {
  const { store, calls, addProcess } = storeOf();
  const { registration, clock } = registrationOf(
    store,
    hostWith(({ pid }) => pid === 2),
  );
  registration.start();
  await vi.waitUntil(() => calls.includes('list'));
  await clock.advance(1_000);
  calls.length = 0;
  addProcess({ processId: 'a', pid: 2, startTime: '1' });
  registration.changedElsewhere();
  await clock.advance(999);
  expect(calls).toEqual([]);
  await clock.advance(1);
  await vi.waitUntil(() => calls.length === 2);
  expect(calls).toEqual(['list', 'take over a']);
  await registration.stop();
});

it('two workers of one process share one registration and one heartbeat', async () => {
  const { store, calls } = storeOf();
  const clock = new FakeClock();
  const [one, two] = ['one', 'two'].map(
    (workerId) => registrationOf(store, living, { workerId, clock }).registration,
  );
  one?.start();
  two?.start();
  await clock.advance(1_000);
  await vi.waitUntil(() => calls.includes('list'));
  calls.length = 0;
  for (let seconds = 0; seconds < 10; seconds += 1) await clock.advance(1_000);
  expect(calls).toEqual(['renew one two']);
  await one?.stop();
  expect(calls.slice(1)).toEqual(['remove one']);
  await two?.stop();
  expect(calls.slice(1)).toEqual(['remove one', 'remove two', 'unregister']);
});

it('registers the process with the longest lease of its workers', async () => {
  const { store, calls, processes } = storeOf();
  const clock = new FakeClock();
  const long = registrationOf(store, living, { workerId: 'long', clock }).registration;
  const short = registrationOf(store, living, { workerId: 'short', leaseMs: 5_000, clock });
  long.start();
  await vi.waitUntil(() => calls.includes('list'));
  short.registration.start();
  await clock.advance(1_000);
  await vi.waitUntil(() => processes.length === 2);
  expect(processes.at(-1)).toMatchObject({ leaseMs: 30_000 });
  await Promise.all([long.stop(), short.registration.stop()]);
});

it('a worker whose row is gone registers again at its next heartbeat', async () => {
  const { store, calls, workers } = storeOf();
  const { registration, clock } = registrationOf(store, living);
  registration.start();
  await vi.waitUntil(() => calls.includes('list'));
  workers.clear();
  calls.length = 0;
  for (let seconds = 0; seconds < 10; seconds += 1) await clock.advance(1_000);
  expect(calls).toEqual(['renew w', 'register', 'add w']);
  await registration.stop();
});

it('a heartbeat is due when the clock of the store was advanced', async () => {
  const storeClock = new FakeClock();
  const { store, calls } = storeOf([], storeClock);
  const { registration, clock } = registrationOf(store, living);
  registration.start();
  await vi.waitUntil(() => calls.includes('list'));
  await storeClock.advance(30 * 86_400_000);
  await clock.advance(1_000);
  expect(calls.filter((call) => call.startsWith('renew'))).toHaveLength(1);
  await registration.stop();
});

it('a worker that stops during its registration is not registered after it', async () => {
  const { store, workers } = storeOf();
  const { registration } = registrationOf(store, living);
  registration.start();
  await registration.stop();
  expect([...workers.keys()]).toEqual([]);
});

it('without process information, only the worker is registered', async () => {
  const { store, calls } = storeOf([{ processId: 'a', pid: 2, startTime: '1' }]);
  const { registration, clock } = registrationOf(store, null);
  registration.start();
  await vi.waitUntil(() => calls.length === 1);
  for (let seconds = 0; seconds < 10; seconds += 1) await clock.advance(1_000);
  await registration.stop();
  expect(calls).toEqual(['add w', 'renew w', 'remove w']);
});
