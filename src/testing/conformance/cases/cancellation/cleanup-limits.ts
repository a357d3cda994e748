import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { cleanupMs, event, raised } from '../../sample-data.ts';
import { contents, labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';

const canceled = { status: 'canceled', reason: 'x', cleanupSkipped: true } as const;

/** Begins an instance, cancels it, and acks its cancel message. */
async function beginCleaningUp(store: StoreUnderTest): Promise<void> {
  await store.begin('a');
  await store.cancel('a', { reason: 'x' });
  await store.commit(await store.claimOne());
}

export const cleanupLimits: Capability = {
  title: 'clean-up limits',
  cases: [
    {
      id: 'cleanup/expires-at-its-moment',
      title: 'cleanupExpired becomes visible exactly at the clean-up limit, with the cancel reason',
      async run(store) {
        await beginCleaningUp(store);
        await store.clock.advance(cleanupMs - 1);
        await store.expectIdle();
        await store.clock.advance(1);
        const item = await store.claimOne();
        assert.deepEqual(contents(item), [{ kind: 'cleanupExpired', reason: 'x' }]);
        await store.commit(item, { events: [event('ended')], outcome: canceled });
        const { status, cleanupSkipped } = await store.record('a');
        assert.deepEqual({ status, cleanupSkipped }, { status: 'canceled', cleanupSkipped: true });
      },
    },
    {
      id: 'cleanup/needs-no-code-once-it-has-expired',
      title: 'any worker can claim an instance whose clean-up limit has passed',
      async run(store) {
        await store.begin('a', {}, { name: 'rare' });
        await store.cancel('a');
        const strangers = [{ runnable: [] }, { runnable: [{ name: 'other', version: '1' }] }];
        for (const stranger of strangers) assert.deepEqual(await store.claim(stranger), []);
        await store.clock.advance(cleanupMs);
        for (const stranger of strangers) {
          const { lockToken, name, ...item } = await store.claimOne(stranger);
          assert.deepEqual(
            [name, item.messages.map(({ kind }) => kind)],
            ['rare', ['cancel', 'cleanupExpired']],
          );
          const abandon = { lockToken, delayMs: 0, giveBackClaim: true };
          assert.deepEqual(await store.provider.abandonOrchestrationItems([abandon]), [true]);
        }
      },
    },
    {
      id: 'cleanup/is-for-canceling-instances-alone',
      title: 'a clean-up limit does not affect ended instances or instances that are not canceling',
      async run(store) {
        await store.begin('over');
        await store.cancel('over');
        await store.commit(await store.claimOne(), { outcome: canceled });
        await store.begin('other');
        await store.raise('other', 'x');
        await store.clock.advance(cleanupMs * 2);
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        assert.deepEqual(labels(await store.claimOne()), ['x']);
      },
    },
    {
      id: 'cleanup/does-not-break-a-claim',
      title: 'a claim stays valid when the clean-up limit of its instance passes',
      async run(store) {
        await store.begin('a');
        await store.cancel('a');
        await store.clock.advance(cleanupMs - 1);
        const item = await store.claimOne();
        await store.clock.advance(1);
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        await store.commit(item);
        const next = await store.claimOne({ runnable: [] });
        assert.deepEqual(labels(next), ['cleanupExpired']);
        await store.clock.advance(lockMs);
        assert.equal((await store.claimOne({ runnable: [] })).claims, 2);
      },
    },
    {
      id: 'cleanup/ends-a-wait',
      title:
        'a waiting fetch without runnable definitions returns an instance when its clean-up limit passes',
      async run(store) {
        await beginCleaningUp(store);
        const waiting = store.claim({ runnable: [], waitMs: 10 * cleanupMs });
        await store.clock.advance(cleanupMs - 1);
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        const item = only(await withTimeLimit(waiting, 'after the clean-up expired'), 'instance');
        assert.equal(item.instanceId, 'a');
      },
    },
    {
      id: 'cleanup/comes-first-where-messages-are-cut',
      title: 'cleanupExpired comes first when maxMessages truncates a claim',
      async run(store) {
        await store.begin('a');
        await store.cancel('a');
        await store.raise('a', ...Array.from({ length: 20 }, (_, index) => `e${index}`));
        await store.clock.advance(cleanupMs);
        const item = await store.claimOne({ maxMessages: 5, runnable: [] });
        assert.deepEqual(labels(item), ['cleanupExpired', 'cancel', 'e0', 'e1', 'e2']);
        await store.commit(item);
        assert.equal((await store.claimOne()).messages.length, 17);
      },
    },
    {
      id: 'cleanup/lifts-a-hold-back',
      title: 'requestCancel() makes a blocked instance claimable immediately by the same build',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const { lockToken } = await store.claimOne();
        const blocked = { reason: 'history disagrees', buildId: 'one' };
        await store.provider.abandonOrchestrationItems([
          { lockToken, delayMs: 60_000, giveBackClaim: true, blocked },
        ]);
        assert.deepEqual(await store.claim({ buildId: 'one' }), []);
        await store.cancel('a');
        assert.deepEqual(labels(await store.claimOne({ buildId: 'one' })), ['x', 'cancel']);
        assert.equal((await store.record('a')).blocked?.reason, 'history disagrees');
      },
    },
    {
      id: 'cleanup/ends-a-hold-back',
      title:
        'a canceling instance that is blocked is claimable by any worker at its clean-up limit',
      async run(store) {
        await store.begin('a');
        await store.cancel('a');
        const { lockToken } = await store.claimOne();
        const blocked = { reason: 'history disagrees', buildId: 'one' };
        await store.provider.abandonOrchestrationItems([
          { lockToken, delayMs: 10 * cleanupMs, giveBackClaim: true, blocked },
        ]);
        await store.clock.advance(cleanupMs - 1);
        assert.deepEqual(await store.claim({ buildId: 'one' }), []);
        await store.clock.advance(1);
        const item = await store.claimOne({ buildId: 'one', runnable: [] });
        assert.deepEqual(labels(item), ['cancel', 'cleanupExpired']);
      },
    },
    {
      id: 'cleanup/a-turn-may-go-on-after-it',
      title:
        'after cleanupExpired is acked, only workers with the definition can claim the instance',
      async run(store) {
        await beginCleaningUp(store);
        await store.clock.advance(cleanupMs);
        const last = await store.claimOne();
        await store.raise('a', 'x');
        await store.commit(last);
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['x']);
        expectCommitted(await store.ack(item, { outcome: canceled }));
        const late = [{ instanceId: 'a', message: raised('late') }];
        assert.deepEqual(await store.provider.enqueueMessages(late), ['over']);
      },
    },
    {
      id: 'cleanup/a-delay-after-it-holds-for-everyone',
      title: 'an abandon with a delay after the clean-up limit hides the instance from all workers',
      async run(store) {
        await beginCleaningUp(store);
        await store.clock.advance(cleanupMs);
        const { lockToken } = await store.claimOne({ runnable: [] });
        const abandon = { lockToken, delayMs: 500, giveBackClaim: true };
        await store.provider.abandonOrchestrationItems([abandon]);
        await store.clock.advance(499);
        await store.expectIdle();
        await store.clock.advance(1);
        assert.deepEqual(labels(await store.claimOne({ runnable: [] })), ['cleanupExpired']);
      },
    },
  ],
};
