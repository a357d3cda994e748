import type { DurablePromise, OrchestrationContext } from '../index.ts';
import { signalEvent, type FlowGraph } from './graph.ts';

/** A signal on its way: the token tells the sender whether it was this one that was taken. */
export interface SentSignal {
  readonly token: string;
  readonly payload?: unknown;
}

/** The signals of a run: each is taken as soon as it comes, whether or not its step is ready for it, and only once. */
export class Signals {
  readonly #waits = new Map<string, Promise<unknown>>();

  /** Listens for all signals of a graph; `onTaken` hears the token of each. */
  constructor(
    ctx: Pick<OrchestrationContext, 'waitFor'>,
    graph: FlowGraph,
    onTaken: (signal: string, token: string) => void,
  ) {
    for (const { signal } of graph.steps) {
      if (signal === undefined) continue;
      const wait = ctx.waitFor(signalEvent(signal)) as DurablePromise<SentSignal>;
      const taken = wait.then(({ token, payload }) => {
        onTaken(signal, token);
        return payload;
      });
      // The step that waits hears of a cancel; one that does not wait yet has nothing to hear.
      taken.catch(() => undefined);
      this.#waits.set(signal, taken);
    }
  }

  /** What came with a signal, once it is there. */
  async payloadOf(signal: string): Promise<unknown> {
    return this.#waits.get(signal);
  }
}
