import { expect, it } from 'vitest';
import type { OrchestrationItem } from '../../providers/contract/orchestration-queue.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { Execution } from '../../replay/execution.ts';
import { TurnRunner, type TurnRunnerParams } from './turn-runner.ts';
import { WarmCache } from './warm-cache.ts';
import { FaultReporter, WarmInstance } from './warm-instance.ts';

function item(instanceKey: number): OrchestrationItem {
  return {
    instanceKey,
    instanceId: `i${instanceKey}`,
    incarnation: 'a',
    executionId: 1,
    name: 'n',
    version: '1',
    parent: null,
    lockToken: `token ${instanceKey}`,
    claims: 1,
    lastTurn: 't',
    historyLength: 1,
    nowMs: 0,
    messages: [],
  };
}

function warmCopyOf({ instanceKey, lastTurn, ...subject }: OrchestrationItem): WarmInstance {
  const { instanceId, incarnation, executionId, name, parent } = subject;
  const program = () => Promise.resolve();
  const execution = new Execution({ instanceId, incarnation, executionId, program });
  const faults = new FaultReporter(instanceId, () => undefined);
  return new WarmInstance({
    instanceKey,
    subject: { instanceId, executionId, name, version: '1', parent },
    incarnation,
    code: { execution, faults, watchdogId: 0 },
    lastTurn,
  });
}

it('run() hands back the claim on an instance that is evicted while histories of others are read', async () => {
  const [warm, cold] = [item(1), item(2)];
  const cache = new WarmCache(1_000_000);
  const instance = warmCopyOf(warm);
  cache.put(instance);
  const readHistory: Provider['readHistory'] = () => {
    // As steps do that lose an earlier claim.
    cache.evict(instance);
    return Promise.resolve([[]]);
  };
  const runner = new TurnRunner({
    cache,
    provider: { readHistory },
    options: { metrics: { lookedUp: () => undefined } },
    release: (one: WarmInstance) => one.release(),
  } as unknown as TurnRunnerParams);
  const results = await runner.run([warm, cold], (lockToken) => lockToken === warm.lockToken);
  const handBack = { delayMs: 0, giveBackClaim: true, evenIfExpired: true };
  expect(results).toEqual(
    [warm, cold].map(({ lockToken }) => ({ kind: 'abandon', abandon: { lockToken, ...handBack } })),
  );
  expect(instance.isBusy).toBe(false);
});
