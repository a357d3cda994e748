import { activity } from '../../../src/orchestration/activity.ts';
import { testOptions } from '../../../src/runtime/test-options.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { isTerminal, type InstanceStatus } from '../../../src/model/status.ts';
import type { CanceledError } from '../../../src/model/failures/errors.ts';
import { waitUntilIdle } from './wait-until-idle.ts';
import { findRemainingRows } from './find-remaining-rows.ts';
import { StoreBoundary, type HoldPoint } from './store-boundary.ts';

/** The acts on an instance that runs two activities, `first` and `second`. */
export type Act =
  | 'cancel'
  | 'complete'
  | 'fail'
  | 'retry'
  | 'terminate'
  | 'delete'
  | 'continue as new';

/** The final state of a race. */
export interface RaceOutcome {
  readonly status: InstanceStatus | 'gone';
  /** The results of the client calls. */
  readonly results: Readonly<Partial<Record<Act, unknown>>>;
  /** The triggers of the handlers that were aborted before time passed. */
  readonly abortTriggers: readonly string[];
  /** Remaining rows of a deleted instance. */
  readonly remainingRows: readonly string[];
  readonly output?: unknown;
  readonly executions: number;
  /** Whether a cancel is recorded. */
  readonly isCancelRequested: boolean;
  /** Attempts of the two activities in the first execution. */
  readonly attempts: Readonly<Record<string, number>>;
  /** The last event of each execution. */
  readonly lastEvents: readonly string[];
  readonly terminalEvents: number;
}

class ForGood extends Error {
  override readonly name = 'ForGood';
}

const id = 'racer';
const stepMs = 100;

/** Runs two acts on the real engine and commits them in a chosen order, with nothing between them. */
export class RaceHarness {
  readonly #clock: FakeClock;
  readonly #boundary: StoreBoundary;
  readonly #perdure: Perdure;
  readonly #fastPaths: boolean;
  readonly #handlers = new Map<string, (word: 'complete' | 'fail' | 'retry') => void>();
  #attempts: Record<string, number> = {};
  readonly #results: Partial<Record<Act, unknown>> = {};
  readonly #asked: Promise<void>[] = [];
  readonly #abortTriggers: string[] = [];
  #isHealing = false;

  private constructor(parts: {
    readonly clock: FakeClock;
    readonly boundary: StoreBoundary;
    readonly perdure: Perdure;
    readonly fastPaths: boolean;
  }) {
    this.#clock = parts.clock;
    this.#boundary = parts.boundary;
    this.#perdure = parts.perdure;
    this.#fastPaths = parts.fastPaths;
  }

  /** Starts one instance and its two activities. */
  static async open(fastPaths: boolean): Promise<RaceHarness> {
    let rest = (): Promise<void> => Promise.resolve();
    const clock = new FakeClock({ settle: () => rest() });
    const store = await openSqlite({ path: ':memory:', clock });
    const boundary = new StoreBoundary({
      store,
      clock,
      hints: true,
      onCommitted: () => Promise.resolve(),
    });
    rest = () => waitUntilIdle(boundary);
    const perdure = await Perdure.open(boundary.connect().provider, { clock });
    const harness = new RaceHarness({ clock, boundary, perdure, fastPaths });
    await harness.#start();
    return harness;
  }

  /** Begins both acts, then commits them in this order. */
  async commitInOrder(first: Act, second: Act): Promise<void> {
    const points = [first, second].map((act) => this.#holdPointOf(act));
    this.#boundary.holdAt(points);
    for (const [index, act] of [first, second].entries()) {
      this.#begin(act, act === first ? second : first);
      await this.rest();
      const held = this.#boundary.held.map(({ point }) => point);
      if (held.length !== index + 1) throw new Error(`${act} is not held: ${held.join()}`);
    }
    // In one turn of the event loop, so that no other call reaches the store between them.
    this.#boundary.release(0, 'go');
    this.#boundary.release(0, 'go');
    this.#boundary.open();
    await this.rest();
  }

  /** Ends the handlers and advances the clock until the instance has ended. */
  async finish(): Promise<RaceOutcome> {
    this.#isHealing = true;
    const { client } = this.#perdure;
    for (let step = 0; step < 100; step++) {
      for (const tell of this.#handlers.values()) tell('complete');
      await this.rest();
      const info = await client.get(id);
      if (info === undefined || isTerminal(info.status)) break;
      await client.raiseEvent(id, 'end');
      await this.#pass(stepMs);
    }
    await Promise.all(this.#asked);
    return this.#read();
  }

  /** Starts a new instance with the id of the deleted one. */
  async startAgain(): Promise<RaceOutcome> {
    this.#isHealing = false;
    this.#attempts = {};
    await this.#perdure.client.start('racer', undefined, { id });
    await this.rest();
    this.#tell('second', 'complete');
    return this.finish();
  }

  async close(): Promise<void> {
    const closed = this.#perdure.close();
    await this.rest();
    await closed;
    await this.#boundary.store.close();
  }

  async rest(): Promise<void> {
    await waitUntilIdle(this.#boundary);
  }

  async #start(): Promise<void> {
    const work = activity('work', (ctx, name: string) => {
      this.#attempts[name] = (this.#attempts[name] ?? 0) + 1;
      return new Promise<string>((resolve, reject) => {
        const tell = (word: 'complete' | 'fail' | 'retry'): void => {
          this.#handlers.delete(name);
          if (word === 'complete') resolve(name);
          else reject(word === 'retry' ? new Error(name) : new ForGood(name));
        };
        this.#handlers.set(name, tell);
        if (this.#isHealing) tell('complete');
        ctx.signal.addEventListener('abort', () => {
          if (!this.#isHealing)
            this.#abortTriggers.push((ctx.signal.reason as CanceledError).trigger);
          // Until then, the race decides how the handler ends.
          if (this.#isHealing) reject(ctx.signal.reason as Error);
        });
      });
    });
    const retry = { maxAttempts: 2, initialDelay: stepMs, jitter: 0, nonRetryable: ['ForGood'] };
    const racer = orchestration('racer', async (ctx): Promise<string> => {
      if (ctx.executionId === 2) {
        await ctx.waitFor('end');
        return 'next';
      }
      const calls = ['first', 'second'].map((name) => ctx.call(work, name, { retry }));
      const again = ctx.waitFor('again');
      const winner = await Promise.race([...calls, again.then(() => 'again')]);
      return winner === 'again' ? await ctx.continueAsNew(undefined) : winner;
    });
    await this.#perdure.startWorker({
      orchestrations: [racer],
      activities: [work],
      ...testOptions({ fastPaths: this.#fastPaths }),
      activityLease: 300,
      cancelGrace: 100,
      shutdownGrace: 0,
      pollInterval: '30d',
    });
    await this.#perdure.client.start(racer, undefined, { id });
    await this.rest();
  }

  #holdPointOf(act: Act): HoldPoint {
    switch (act) {
      case 'cancel':
        return 'requestCancel:before';
      case 'terminate':
        return 'terminate:before';
      case 'delete':
        return 'deleteInstancesAtomic:before';
      case 'retry':
        return 'retryWorkItems:before';
      case 'continue as new':
        return 'ackOrchestrationItems:before';
      case 'complete':
      case 'fail':
        return this.#fastPaths ? 'ackTurns:before' : 'ackWorkItems:before';
    }
  }

  #begin(act: Act, other: Act): void {
    const { client } = this.#perdure;
    switch (act) {
      case 'cancel':
        return this.#note(act, client.cancel(id, { reason: 'why not' }));
      case 'terminate':
        return this.#note(act, client.terminate(id));
      case 'delete':
        return this.#note(act, client.deleteInstance(id, { force: true }));
      case 'continue as new':
        void client.raiseEvent(id, 'again');
        return;
      case 'complete':
        return this.#tell('first', 'complete');
      case 'retry':
        return this.#tell('second', 'retry');
      case 'fail':
        return this.#tell(other === 'complete' ? 'second' : 'first', 'fail');
    }
  }

  #note(act: Act, answer: Promise<unknown>): void {
    const note = (what: unknown): void => void (this.#results[act] = what);
    this.#asked.push(answer.then(note, note));
  }

  #tell(name: string, word: 'complete' | 'fail' | 'retry'): void {
    const tell = this.#handlers.get(name);
    if (tell === undefined) throw new Error(`${name} does not run.`);
    tell(word);
  }

  async #pass(ms: number): Promise<void> {
    await this.#clock.advance(ms);
    this.#boundary.wakeUp();
    await this.rest();
  }

  async #read(): Promise<RaceOutcome> {
    const { client } = this.#perdure;
    const info = await client.get(id);
    const kinds: string[][] = [];
    const executions = info === undefined ? [] : (await client.listExecutions(id)).items;
    for (const { executionId } of executions) {
      const { items } = await client.history(id, { executionId });
      kinds.push(items.map(({ event }) => event.kind));
    }
    return {
      status: info?.status ?? 'gone',
      results: this.#results,
      abortTriggers: this.#abortTriggers,
      remainingRows: info ? [] : await findRemainingRows(this.#boundary.store, new Set([id])),
      ...(info !== undefined && 'output' in info && { output: info.output }),
      executions: kinds.length,
      isCancelRequested: info?.cancel !== undefined,
      attempts: this.#attempts,
      lastEvents: kinds.map((of) => of.at(-1) ?? ''),
      terminalEvents: kinds.flat().filter((kind) => /^execution(?!Started)/.test(kind)).length,
    };
  }
}
