import assert from 'node:assert/strict';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import {
  activityCancel,
  child,
  event,
  newTurn,
  startMessage,
  workItem,
} from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, expectRefused, only } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';

export const hints: Capability = {
  title: 'hints',
  cases: [
    {
      id: 'hint/tells-of-finished-instances',
      title: 'every path that ends an instance emits finished after the end is readable',
      async run(store) {
        const outcome = { status: 'completed', payload: null } as const;
        const failed = { status: 'failed', failure: '{}' } as const;
        const workItems = [workItem(1, { claimMs: lockMs })];
        const warm = await store.begin('fast', { workItems });
        const endings: Readonly<Record<string, () => Promise<unknown>>> = {
          acked: () => store.begin('acked', { outcome }),
          failed: () => store.begin('failed', { outcome: failed }),
          born: () => store.create('born', { firstTurn: newTurn({ outcome }) }),
          fast: async () => {
            const { lockToken } = only(warm.claimed, 'claimed item');
            expectCommitted(await store.ackTurn(warm, [lockToken], { outcome }));
          },
        };
        for (const [instanceId, end] of Object.entries(endings)) {
          const { next, stop } = collectHints(store.provider);
          await end();
          assert.deepEqual((await next('finished')).instanceIds, [instanceId]);
          const { status } = await store.record(instanceId);
          assert.equal(status, instanceId === 'failed' ? 'failed' : 'completed');
          stop();
        }
      },
    },
    {
      id: 'hint/tells-of-custom-status',
      title: 'a custom status emits statusSet once it is readable; other turns emit none',
      async run(store) {
        const { hints: received, next, stop } = collectHints(store.provider);
        await store.begin('quiet');
        await store.begin('a', { customStatus: '"half"' });
        assert.deepEqual((await next('statusSet')).instanceIds, ['a']);
        assert.equal((await store.record('a')).customStatus, '"half"');
        stop();
        assert.equal(received.filter(({ kind }) => kind === 'statusSet').length, 1);
      },
    },
    {
      id: 'hint/brings-the-outputs-of-completed-instances',
      title: 'outputs in a finished hint equal the committed outputs of completed instances',
      async run(store) {
        const failed = { status: 'failed', failure: '{"message":"x"}' } as const;
        const { hints: received, next, stop } = collectHints(store.provider);
        await store.begin('failed', { outcome: failed });
        await next('finished');
        await store.begin('completed', { outcome: { status: 'completed', payload: '{"n":1}' } });
        await next('finished');
        await store.begin('nothing', { outcome: { status: 'completed', payload: null } });
        await next('finished');
        stop();
        const outputs = received.flatMap((hint) =>
          hint.kind === 'finished' ? [...(hint.outputs ?? [])] : [],
        );
        for (const [instanceId, completed] of outputs) {
          const { status, incarnation, output } = await store.record(instanceId);
          assert.equal(status, 'completed');
          assert.deepEqual(completed, { incarnation, output });
        }
      },
    },
    {
      id: 'hint/tells-nothing-of-instances-that-go-on',
      title: 'running, continued-as-new and rejected turns emit no finished hint',
      async run(store) {
        const { hints: received, next } = collectHints(store.provider);
        const continued = {
          status: 'continuedAsNew',
          version: '1',
          start: startMessage(),
        } as const;
        await store.begin('a', { outcome: continued });
        await store.commit(await store.claimOne(), { events: [event('x')] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        const outcome = { status: 'completed', payload: null } as const;
        expectRefused(
          await store.ack(item, { firstEventId: 1, events: [event('clashes')], outcome }),
        );
        assert.deepEqual(
          received.filter(({ kind }) => kind === 'finished'),
          [],
        );
        await store.commit(item, { outcome });
        assert.deepEqual((await next('finished')).instanceIds, ['a']);
      },
    },
    {
      id: 'hint/tells-whom-a-cancel-concerns',
      title: 'turns that cancel, end or continue emit cancelRequested with the held tokens',
      async run(store) {
        const cancels = {
          turn: { activityCancels: [activityCancel(1)] },
          end: { outcome: { status: 'completed', payload: null } },
          next: { outcome: { status: 'continuedAsNew', version: '1', start: startMessage() } },
        } as const;
        for (const [instanceId, parts] of Object.entries(cancels)) {
          const workItems = [workItem(1, { claimMs: lockMs }), workItem(2)];
          const { claimed } = await store.begin(instanceId, { workItems });
          await store.raise(instanceId, 'x');
          const item = await store.claimOne();
          const { next, stop } = collectHints(store.provider);
          await store.commit(item, parts);
          const tokens = claimed.map(({ lockToken }) => lockToken);
          assert.deepEqual((await next('cancelRequested')).lockTokens, tokens);
          stop();
          for (const { lockToken } of await store.claimWork()) await store.ackWork(lockToken);
          for (const left of await store.claim()) await store.commit(left);
        }
      },
    },
    {
      id: 'hint/tells-of-cancel-requests',
      title:
        'requestCancel() and terminate() emit cancelRequested only for the work items they flag',
      async run(store) {
        const stops = [
          { instanceId: 'canceled', stop: () => store.cancel('canceled'), received: [1] },
          { instanceId: 'terminated', stop: () => store.terminate('terminated'), received: [1, 4] },
        ];
        for (const { instanceId, stop, received } of stops) {
          const cancellation = 'abandon' as const;
          const claimMs = lockMs;
          const workItems = [
            workItem(1, { claimMs }),
            workItem(2),
            workItem(3, { claimMs, cancellation }),
            workItem(4, { claimMs }),
          ];
          const { claimed } = await store.begin(instanceId, { workItems });
          const tokens = new Map(claimed.map(({ operation, lockToken }) => [operation, lockToken]));
          await store.provider.markPointOfNoReturn(tokens.get(4) ?? '');
          const { next, stop: stopListening } = collectHints(store.provider);
          await stop();
          expectInAnyOrder(
            (await next('cancelRequested')).lockTokens,
            received.map((operation) => tokens.get(operation)),
          );
          stopListening();
          for (const left of await store.claim()) await store.commit(left);
        }
      },
    },
    {
      id: 'hint/brings-the-requests-of-canceled-items',
      title: 'cancels in a cancelRequested hint equal those returned by renewals',
      async run(store) {
        const { provider } = store;
        const reason = `it's "over" \\ \u2028 ${'\u{1F6D1}'.repeat(300)}`;
        const trigger = 'race_lost' as const;
        const stops: Readonly<Record<string, () => Promise<unknown>>> = {
          canceled: () => store.cancel('canceled', { reason, actor: 'me' }),
          terminated: () => store.terminate('terminated', { reason }),
          withdrawn: async () => {
            await store.raise('withdrawn', 'x');
            const activityCancels = [{ operation: 1, reason, trigger }];
            await store.commit(await store.claimOne(), { activityCancels });
          },
          ended: async () => {
            await store.raise('ended', 'x');
            const outcome = { status: 'completed', payload: null } as const;
            await store.commit(await store.claimOne(), { outcome });
          },
          deleted: () => forceDelete(store, 'deleted'),
        };
        for (const [instanceId, stop] of Object.entries(stops)) {
          const workItems = [workItem(1, { claimMs: lockMs }), workItem(2, { claimMs: lockMs })];
          await store.begin(instanceId, { workItems });
          const { next, stop: stopListening } = collectHints(provider);
          await store.clock.advance(1);
          await stop();
          const { lockTokens, cancels = new Map() } = await next('cancelRequested');
          stopListening();
          for (const [lockToken, cancel] of cancels) {
            assert.ok(lockTokens.includes(lockToken));
            await store.clock.advance(1);
            assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel });
          }
          for (const left of await store.claim()) await store.commit(left);
        }
      },
    },
    {
      id: 'hint/tells-of-stopped-instances',
      title: 'every path that stops an instance emits finished after its end',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs })];
        const { claimed } = await store.begin('closing', { workItems });
        await store.begin('ended', { children: [child('its child', 1)] });
        await store.commit(await store.claimOne());
        await store.cancel('closing');
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        const { hints: received, stop } = collectHints(store.provider);
        await store.commit(await store.claimOne(), { outcome });
        assert.deepEqual(
          received.filter(({ kind }) => kind === 'finished'),
          [],
        );
        stop();
        await store.create('pending');
        const { lockToken } = only(claimed, 'claimed item');
        const endings: Readonly<Record<string, () => Promise<unknown>>> = {
          pending: () => store.cancel('pending'),
          closing: () => store.ackWork(lockToken, { kind: 'canceled', leaked: false }),
          'its child': () => store.terminate('its child'),
          ended: () => store.terminate('ended'),
        };
        for (const [instanceId, end] of Object.entries(endings)) {
          const { next, stop } = collectHints(store.provider);
          await end();
          assert.deepEqual((await next('finished')).instanceIds, [instanceId]);
          assert.ok((await store.record(instanceId)).endedAt !== null);
          stop();
        }
      },
    },
    {
      id: 'hint/reaches-every-listener-until-it-stops',
      title: 'hints reach every listener, and none after it stopped',
      async run(store) {
        const stopped = collectHints(store.provider);
        const kept = collectHints(store.provider);
        stopped.stop();
        stopped.stop();
        const countBefore = stopped.hints.length;
        const outcome = { status: 'completed', payload: null } as const;
        await store.begin('a', { outcome });
        assert.deepEqual((await kept.next('finished')).instanceIds, ['a']);
        assert.equal(stopped.hints.length, countBefore);
      },
    },
    {
      id: 'hint/needs-no-listener',
      title: 'commits succeed without a hint listener',
      async run(store) {
        const outcome = { status: 'completed', payload: '1' } as const;
        await store.begin('a', { outcome });
        assert.equal((await store.record('a')).status, 'completed');
      },
    },
  ],
};
