import { expect, it } from 'vitest';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine(
  'a permanently blocked instance',
  (open) => {
    it('a permanently blocked instance can be canceled, terminated and deleted', async () => {
      const run = orchestration('run', async () => 'ran');
      const engine = await open();
      const { client } = engine;
      const ids = ['cancel', 'terminate', 'delete'];
      for (const id of ids) await client.start(run, undefined, { id });
      const provider = await engine.openProvider();
      const items = await provider.fetchOrchestrationItems({ max: 3, lockMs: 60_000, waitMs: 0 });
      const blocked = { reason: 'EVENT_LOOP_BLOCKED: it loops', buildId: 'one' };
      await provider.abandonOrchestrationItems(
        items.map(({ lockToken }) => ({ lockToken, delayMs: 1e11, giveBackClaim: true, blocked })),
      );
      await provider.close();
      const listed = await client.list({ blocked: true });
      expect(listed.items.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
      await client.cancel('cancel');
      await client.terminate('terminate');
      await client.deleteInstance('delete', { force: true });
      expect(await client.get('cancel')).toMatchObject({ status: 'canceled' });
      expect(await client.get('terminate')).toMatchObject({ status: 'terminated' });
      expect(await client.get('delete')).toBeUndefined();
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
