import { mkdtemp, rm } from 'node:fs/promises';
import { testOptions } from 'perdure/testing';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { overrideProvider } from '../../crash/override-provider.ts';
import { signalled } from '../signalled.ts';

const listen = orchestration('listen', async (ctx) => {
  for (let n = 0; n < 2; n++) await ctx.waitFor('x');
  return 'heard';
});

/** A store call whose next response a test delays. */
class HeldResponse {
  readonly #reached = signalled<void>();
  readonly #released = signalled<void>();
  #isArmed = false;

  /** Delays the next response. Resolves once the store has returned it. */
  hold(): Promise<void> {
    this.#isArmed = true;
    return this.#reached.promise;
  }

  release(): void {
    this.#released.resolve();
  }

  async pass<T>(response: Promise<T>): Promise<T> {
    const isHeld = this.#isArmed;
    this.#isArmed = false;
    const value = await response;
    if (isHeld) {
      this.#reached.resolve();
      await this.#released.promise;
    }
    return value;
  }
}

function holdResponses(store: Provider, ack: HeldResponse, history: HeldResponse): Provider {
  return overrideProvider(store, {
    ackOrchestrationItems: (acks) => ack.pass(store.ackOrchestrationItems(acks)),
    readHistory: (params) => history.pass(store.readHistory(params)),
  });
}

it('a late ack response does not evict the warm instance of a later turn', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'perdure-late-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const path = join(directory, 'store.db');
  // Another process starts an instance that this one has to replay.
  const other = await Perdure.open(path);
  const otherWorker = await other.startWorker({ orchestrations: [listen] });
  const cold = await other.client.start(listen, undefined);
  await otherWorker.stop();
  await other.close();

  const [ack, history] = [new HeldResponse(), new HeldResponse()];
  const perdure = await Perdure.open(holdResponses(await openSqlite({ path }), ack, history));
  onTestFinished(() => perdure.close());
  const blocked: unknown[] = [];
  let turns = 0;
  await perdure.startWorker({
    orchestrations: [listen],
    ...testOptions({ fastPaths: false }),
    hooks: {
      instanceBlocked: (one) => void blocked.push(one),
      turnCommitted: () => void turns++,
    },
  });
  const { client } = perdure;
  const firstCommitted = ack.hold();
  const handle = await client.start(listen, undefined);
  await firstCommitted;
  // The next turn is replayed, and its instance stays warm.
  await handle.raiseEvent('x', null);
  await expect.poll(() => turns).toBe(1);
  // A third turn holds the warm instance while its batch reads the history of the other instance.
  const historyRead = history.hold();
  await Promise.all([
    client.raiseEvent(handle.id, 'x', null),
    client.raiseEvent(cold.id, 'x', null),
  ]);
  await historyRead;
  ack.release();
  await expect.poll(() => turns).toBe(2);
  history.release();
  expect(await handle.result()).toBe('heard');
  expect(blocked).toEqual([]);
});
