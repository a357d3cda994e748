import { encodeEvent, type HistoryEvent } from '../../src/model/event.ts';
import { encodeBlockedDetails } from '../../src/model/failures/blocked.ts';
import { child } from '../../src/testing/conformance/sample-data.ts';
import {
  type State,
  awaited,
  begin,
  block,
  charge,
  childScheduled,
  fail,
  scheduled,
  started,
  timer,
} from './why-arrangements.ts';

/** The states of the orchestration `a`. */
export const instanceStates: readonly State[] = [
  {
    state: 'pending, claimable',
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'queued', name: 'sample', claims: 0 }],
    short: 'Waits for a worker, due for 5 s',
    text: 'Waiting for a worker with orchestration `sample`: due for 5 s.',
  },
  {
    state: 'released with a delay',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 2_000, giveBackClaim: true },
      ]);
    },
    waits: [{ kind: 'delay' }],
    short: 'Released by a worker: next claim in 2 s',
    text: 'A worker released it: the next claim is possible in 2 s.',
  },
  {
    state: 'a delayed start',
    arrange: (store) => store.create('a', { delayMs: 12_000 }),
    waits: [{ kind: 'start', name: 'sample' }],
    short: 'Starts in 12 s',
    text: 'Starts in 12 s: its start was delayed.',
  },
  {
    state: 'running a turn',
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'turn', worker: 'w1' }],
    short: 'Runs a turn on `w1`',
    text: 'A turn has been running on worker `w1` for 3 s; its lease ends in 7 s.',
  },
  {
    state: 'a turn whose lease expired',
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'worker', claims: 1, expired: { worker: 'w1' } }],
    short: 'Lost its worker: its turn waits for another one',
    text: 'The lease of worker `w1` expired 4 s ago during a turn (claim 1). Waiting for another worker with orchestration `sample`.',
  },
  {
    state: 'an activity that is queued',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', name: 'charge', state: 'queued', attempt: 1, maxAttempts: 10 }],
    short: 'Waits for a worker to run `charge`, due for 3 s',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and no worker has claimed it.',
  },
  {
    state: 'an activity that runs, with a heartbeat',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
      await store.clock.advance(3_000);
      await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '1' }], 10_000);
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'activity', state: 'running', worker: 'w1', heartbeat: 1 }],
    short: 'Runs `charge`, heartbeat 2 s ago',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 5 s, last heartbeat 2 s ago.',
  },
  {
    state: 'an activity between two attempts',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      for (let attempt = 0; attempt < 3; attempt += 1) await fail(store, attempt < 2 ? 0 : 12_000);
    },
    waits: [{ kind: 'activity', state: 'retrying', attempt: 4 }],
    short: 'Retrying `charge`: attempt 4 of 10 starts in 12 s',
    text: 'Retrying `charge`: attempt 4 of 10 starts in 12 s. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'an activity whose lease expired',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.claimWorkOne({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'activity', state: 'queued', expired: { worker: 'w1' } }],
    short: 'Lost its worker: `charge` waits for another one',
    text: 'Waiting for activity `charge`: the lease of worker `w1` expired 4 s ago, and attempt 1 of 10 waits for another worker.',
  },
  {
    state: 'a timer',
    arrange: async (store) => begin(store, [timer(1, store.clock.now() + 12_000)]),
    waits: [{ kind: 'timer', operation: 1 }],
    short: 'Sleeps for another 12 s',
    text: 'Waiting for a timer: fires in 12 s.',
  },
  {
    state: 'an event',
    arrange: async (store) => begin(store, [awaited(1, 'approved')]),
    waits: [{ kind: 'event', name: 'approved' }],
    short: 'Waits for event `approved`',
    text: 'Waiting for event `approved`.',
  },
  {
    state: 'a detached start',
    arrange: async (store) =>
      begin(store, [
        {
          kind: 'detachedStarted',
          at: 1,
          operation: 1,
          name: 'mail',
          version: null,
          childId: 'm',
          payload: null,
        },
      ]),
    waits: [{ kind: 'detached', id: 'm', name: 'mail' }],
    short: 'Starts `mail`',
    text: 'Waiting for the start of detached instance `m`.',
  },
  {
    state: 'a child',
    arrange: async (store) => {
      await begin(store, [childScheduled], { children: [child('c', 1, { name: 'ship' })] });
      await store.clock.advance(1_000);
    },
    waits: [{ kind: 'child', id: 'c', name: 'ship', status: 'pending' }],
    short: 'Waits for child `ship`',
    text: 'Waiting for child `c` of `ship`: pending. Child: Waiting for a worker with orchestration `ship`: due for 1 s.',
  },
  {
    state: 'several operations',
    arrange: async (store) => {
      const now = store.clock.now();
      const events = [1, 2, 3, 4].map((operation) => awaited(operation, `e${operation}`));
      await begin(store, [...events, timer(5, now + 3_600_000)]);
    },
    waits: [1, 2, 3, 4, 5].map((operation) => ({ operation })),
    short: 'Waits for event `e1`; 4 more',
    text: 'Waiting for 5 operations: event `e1`; event `e2`; event `e3`; and 2 more.',
  },
  {
    state: 'canceling, with code that cleans up',
    arrange: async (store) => {
      await begin(store, [awaited(1, 'x')]);
      await store.cancel('a', { reason: 'no longer needed', actor: 'ada', cleanupMs: 60_000 });
      await store.commit(await store.claimOne());
    },
    waits: [{ kind: 'cancel', phase: 'cleanup', actor: 'ada' }, { kind: 'event' }],
    short: 'Canceling: waits for event `x`, 60 s left',
    text: 'Canceling by `ada` (no longer needed): its code may clean up for 60 s more. Waiting for event `x`.',
  },
  {
    state: 'canceling, with a handler in its grace',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.claimWorkOne({ worker: 'w1' });
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: false },
      });
      await store.clock.advance(1_000);
    },
    waits: [
      { kind: 'cancel', phase: 'handlers' },
      { kind: 'activity', state: 'running', cancel: { reason: 'stop' } },
    ],
    short: 'Canceling: waits for `charge` to stop',
    text: 'Canceling (stop): only running work keeps it from its end. Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 1 s, asked to stop.',
  },
  {
    state: 'canceling, with a handler past its point of no return',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
      await store.provider.markPointOfNoReturn(lockToken);
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: false },
      });
    },
    waits: [{ kind: 'cancel' }, { kind: 'activity', pointOfNoReturn: true }],
    short: 'Canceling: waits for `charge` to stop',
    text: 'Canceling (stop): only running work keeps it from its end. Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 0 ms, past its point of no return.',
  },
  {
    state: 'blocked by a disagreement',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      const details = encodeBlockedDetails({
        code: 'NONDETERMINISM',
        worker: 'w1',
        eventId: 3,
        recorded: { kind: 'activityScheduled', name: 'charge', text: 'activity "charge"' },
        issued: { kind: 'timerCreated', text: 'timer' },
      });
      const blocked = { reason: 'long text', buildId: 'b1', details };
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
      ]);
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'blocked', code: 'NONDETERMINISM', eventId: 3, buildId: 'b1', worker: 'w1' }],
    short: 'Blocked: recorded `charge`, issued timer',
    text: 'Blocked for 5 s (NONDETERMINISM): event 3 of its history is activity "charge", but the code issued timer. Build `b1` retries it in 3 s; another build retries it immediately.',
  },
  {
    state: 'blocked without details',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      const blocked = { reason: 'Undecodable.', buildId: 'b1' };
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
      ]);
    },
    waits: [{ kind: 'blocked', code: 'INTERNAL', reason: 'Undecodable.' }],
    short: 'Blocked (INTERNAL): Undecodable',
    text: 'Blocked for 0 ms (INTERNAL): Undecodable. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
  {
    state: 'completed',
    arrange: async (store) => {
      await begin(store, [], { outcome: { status: 'completed', payload: null } });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'completed' }],
    short: 'Completed',
    text: 'Completed 5 s ago.',
  },
  {
    state: 'terminated',
    arrange: async (store) => {
      await begin(store, []);
      await store.terminate('a', { reason: 'wrong input', actor: 'ada' });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'terminated', reason: 'wrong input', actor: 'ada' }],
    short: 'Terminated by `ada`: wrong input',
    text: 'Terminated by `ada` 5 s ago: wrong input.',
  },
  {
    state: 'failed as poison',
    arrange: async (store) => {
      const poison = JSON.stringify({ name: 'E', message: 'claimed 10 times', code: 'POISON' });
      await begin(store, [], { outcome: { status: 'failed', failure: poison } });
    },
    waits: [{ kind: 'ended', status: 'failed', failure: { code: 'POISON' } }],
    short: 'Failed: claimed 10 times (`POISON`)',
    text: 'Failed now: claimed 10 times (POISON).',
  },
  {
    state: 'canceled, with a leaked handler',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne();
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: true },
      });
      await store.ackWork(lockToken, { kind: 'canceled', leaked: true });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'canceled', leaked: 1, cleanupSkipped: true }],
    short: 'Canceled: stop; 1 handler leaked',
    text: 'Canceled 5 s ago: stop. Its clean-up did not finish within its limit. 1 handler still ran after the grace.',
  },
  {
    state: 'a timer that is past due',
    arrange: async (store) => {
      await begin(store, [timer(1, store.clock.now() + 1_000)]);
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'timer', operation: 1 }],
    short: 'Waits for a turn: its timer was due 2 s ago',
    text: 'Waiting for a timer: was due 2 s ago.',
  },
  {
    state: 'a child that stops',
    arrange: async (store) => {
      const withdrawn: HistoryEvent = {
        kind: 'operationWithdrawn',
        at: 1,
        target: 1,
        targetKind: 'child',
        trigger: 'race_lost',
        reason: 'lost',
        childId: 'c',
      };
      const awaitedChild: HistoryEvent = { ...childScheduled, cancellation: 'wait' };
      const children = [child('c', 1, { name: 'ship' })];
      await begin(store, [awaitedChild, withdrawn], { children });
      await store.commit(await store.claimOne(), {
        events: [{ ...started, name: 'ship' }, awaited(1, 'x')].map(encodeEvent),
      });
      await store.cancel('c', { reason: 'stop', actor: null, cleanupMs: 60_000 });
      await store.commit(await store.claimOne());
    },
    waits: [{ kind: 'child', id: 'c', isStopping: true, status: 'canceling' }],
    short: 'Waits for child `ship` to stop',
    text: 'Waiting for child `c` of `ship` to stop: canceling. Child: Canceling (stop): its code may clean up for 60 s more. Waiting for event `x`.',
  },
  {
    state: 'blocked by undecodable data',
    arrange: (store) => block(store, 'UNDECODABLE', 'Event 2 cannot be decoded.'),
    waits: [{ kind: 'blocked', code: 'UNDECODABLE', reason: 'Event 2 cannot be decoded.' }],
    short: 'Blocked (UNDECODABLE): Event 2 cannot be decoded',
    text: 'Blocked for 0 ms (UNDECODABLE): Event 2 cannot be decoded. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
  {
    state: 'blocked by an unregistered version',
    arrange: (store) => block(store, 'UNREGISTERED', 'Version 2 is not registered'),
    waits: [{ kind: 'blocked', code: 'UNREGISTERED', worker: 'w1' }],
    short: 'Blocked (UNREGISTERED): Version 2 is not registered',
    text: 'Blocked for 0 ms (UNREGISTERED): Version 2 is not registered. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
];
