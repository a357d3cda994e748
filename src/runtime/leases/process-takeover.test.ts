import { expect, it, vi } from 'vitest';
import { silentLogger } from '../../model/logger.ts';
import type {
  NewProcess,
  ProcessRecord,
  ProcessStore,
} from '../../providers/contract/processes.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import type { HostProcess, HostProcesses } from './host-processes.ts';
import { ProcessTakeover } from './process-takeover.ts';

const self = { pid: 1, startTime: '100' };

/** A store with the given processes. Records the calls. */
function storeOf(others: readonly ProcessRecord[]) {
  const calls: string[] = [];
  const registered: NewProcess[] = [];
  let left = others;
  const store: ProcessStore = {
    async registerProcess(process) {
      calls.push('register');
      registered.push(process);
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
  };
  return { store, calls, registered };
}

function hostWith(dead: (process: HostProcess) => boolean): HostProcesses {
  return { hostId: 'here', self, hasDied: dead };
}

function takeoverOf(store: ProcessStore, host: HostProcesses | undefined, leaseMs = 30_000) {
  const clock = new FakeClock();
  const params = { store, logger: silentLogger, leaseMs, clock };
  return { takeover: new ProcessTakeover({ ...params, host }), clock };
}

it('start() registers the process and takes over the claims of dead ones', async () => {
  const { store, calls, registered } = storeOf([
    { processId: 'a', pid: 2, startTime: '1' },
    { processId: 'b', pid: 3, startTime: '1' },
  ]);
  const { takeover } = takeoverOf(
    store,
    hostWith(({ pid }) => pid === 3),
  );
  takeover.start();
  await vi.waitUntil(() => calls.length === 3);
  await takeover.stop();
  expect(calls).toEqual(['register', 'list', 'take over b', 'unregister']);
  expect(registered).toEqual([{ hostId: 'here', ...self, leaseMs: 30_000 }]);
});

it('ProcessTakeover detects a dead process within a second, without polling the store', async () => {
  const dead = new Set<number>();
  const { store, calls } = storeOf([{ processId: 'a', pid: 2, startTime: '1' }]);
  const { takeover, clock } = takeoverOf(
    store,
    hostWith(({ pid }) => dead.has(pid)),
  );
  takeover.start();
  await vi.waitUntil(() => calls.length === 2);
  await clock.advance(1_000);
  await clock.advance(1_000);
  expect(calls).toEqual(['register', 'list']);
  dead.add(2);
  await clock.advance(1_000);
  await vi.waitUntil(() => calls.includes('take over a'));
  await takeover.stop();
});

it('stop() of the last worker unregisters the process', async () => {
  const { store, calls } = storeOf([]);
  const host = hostWith(() => false);
  const [one, two] = [takeoverOf(store, host).takeover, takeoverOf(store, host).takeover];
  one.start();
  two.start();
  await vi.waitUntil(() => calls.length === 4);
  await one.stop();
  expect(calls).not.toContain('unregister');
  await two.stop();
  expect(calls.filter((call) => call === 'unregister')).toHaveLength(1);
});

it('registers the process with the longest lease of its workers', async () => {
  const { store, calls, registered } = storeOf([]);
  const host = hostWith(() => false);
  const [long, short] = [takeoverOf(store, host), takeoverOf(store, host, 5_000)];
  long.takeover.start();
  await vi.waitUntil(() => calls.includes('list'));
  short.takeover.start();
  await vi.waitUntil(() => registered.length === 2);
  expect(registered.at(-1)).toMatchObject({ leaseMs: 30_000 });
  await Promise.all([long.takeover.stop(), short.takeover.stop()]);
});

it('ProcessTakeover does nothing on a host without process information', async () => {
  const { store, calls } = storeOf([{ processId: 'a', pid: 2, startTime: '1' }]);
  const { takeover, clock } = takeoverOf(store, undefined);
  takeover.start();
  await clock.advance(60_000);
  await takeover.stop();
  expect(calls).toEqual([]);
});
