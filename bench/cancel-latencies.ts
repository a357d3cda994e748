import { isPerdureError, type Client, type OrchestrationDefinition } from 'perdure';
import { check, percentile, type Figures } from './benchmark.ts';

/** Milliseconds, comparable between processes of one machine. */
export function sharedNow(): number {
  return performance.timeOrigin + performance.now();
}

/** Matches reports of instances with their waiters, in any order. */
export class Reports {
  readonly #moments = new Map<string, PromiseWithResolvers<number>>();

  add(key: string, at: number): void {
    this.#of(key).resolve(at);
  }

  async take(key: string): Promise<number> {
    const at = await this.#of(key).promise;
    this.#moments.delete(key);
    return at;
  }

  #of(key: string): PromiseWithResolvers<number> {
    const moment = this.#moments.get(key) ?? Promise.withResolvers<number>();
    this.#moments.set(key, moment);
    return moment;
  }
}

/**
 * Cancels instances one at a time. Measures the time until the handler is aborted, and until the status is terminal.
 */
export async function measureCancels(options: {
  readonly client: Client;
  readonly holding: OrchestrationDefinition<void, void>;
  readonly reports: Reports;
  readonly count: number;
}): Promise<Figures> {
  const { client, holding, reports, count } = options;
  const answers: number[] = [];
  const signals: number[] = [];
  const ends: number[] = [];
  const cancelOne = async (): Promise<void> => {
    const handle = await client.start(holding);
    await reports.take(`started ${handle.id}`);
    const begun = sharedNow();
    const result = await handle.cancel({ reason: 'measured' });
    answers.push(sharedNow() - begun);
    check(result.changed && result.status === 'canceling', 'cancel');
    const ended = await handle.result().then(
      () => undefined,
      (error: unknown) => error,
    );
    ends.push(sharedNow() - begun);
    check(isPerdureError(ended, 'OPERATION_CANCELED'), 'the end of a canceled instance');
    signals.push((await reports.take(`told ${handle.id}`)) - begun);
  };
  for (let done = 0; done < 100; done++) await cancelOne();
  for (const values of [answers, signals, ends]) values.length = 0;
  for (let done = 0; done < count; done++) await cancelOne();
  return {
    answerP50Ms: percentile(answers, 0.5),
    signalP50Ms: percentile(signals, 0.5),
    signalP95Ms: percentile(signals, 0.95),
    signalP99Ms: percentile(signals, 0.99),
    canceledP50Ms: percentile(ends, 0.5),
    canceledP95Ms: percentile(ends, 0.95),
    canceledP99Ms: percentile(ends, 0.99),
  };
}
