/** Process that completes every instance in the store of its argument, until its parent disconnects. */
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { encodeEvent } from '../../src/model/event.ts';
import { randomToken } from '../../src/model/values/random-id.ts';

const path = process.argv[2];
if (path === undefined) throw new Error('Give the path of the store.');
const provider = await openSqlite({ path });
const stop = new AbortController();
process.once('disconnect', () => stop.abort());
process.send?.('ready');

while (!stop.signal.aborted) {
  const items = await provider.fetchOrchestrationItems({
    max: 100,
    lockMs: 10_000,
    waitMs: 10_000,
    signal: stop.signal,
  });
  await provider.ackOrchestrationItems(
    items.map(({ instanceId, lockToken, messages, nowMs }) => {
      const payload = JSON.stringify(`${instanceId} ended by another process`);
      return {
        lockToken,
        messageKeys: messages.map(({ messageKey }) => messageKey),
        turn: {
          turnId: randomToken(),
          version: '1',
          firstEventId: 1,
          events: [encodeEvent({ kind: 'executionCompleted', at: nowMs, payload })],
          workItems: [],
          timers: [],
          children: [],
          messages: [],
          activityCancels: [],
          childCancels: [],
          cleanupMs: 0,
          timerWithdrawals: [],
          outcome: { status: 'completed', payload },
        },
      };
    }),
  );
}
await provider.close();
