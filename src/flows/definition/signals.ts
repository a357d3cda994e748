import type { EventToken, OrchestrationContext, StandardSchema } from '../../index.ts';
import { signalEvent, type FlowGraph } from './graph.ts';

/** A signal on its way: the token tells the sender whether it was this one that was taken. */
export interface SentSignal {
  readonly token: string;
  readonly payload?: unknown;
}

/** The event that carries a signal. A schema checks what comes with it; `onSent` hears the token of what it checks. */
export function sentEvent(
  signal: string,
  schema: StandardSchema | undefined,
  onSent?: (token: string) => void,
): EventToken<SentSignal> {
  const name = signalEvent(signal);
  return schema === undefined
    ? { kind: 'event', name }
    : { kind: 'event', name, schema: sentSchema(schema, onSent) };
}

function sentSchema(
  schema: StandardSchema,
  onSent: ((token: string) => void) | undefined,
): StandardSchema<unknown, SentSignal> {
  return {
    '~standard': {
      version: 1,
      vendor: 'perdure',
      validate: (value) => {
        const sent = value as SentSignal;
        onSent?.(sent.token);
        const result = schema['~standard'].validate(sent.payload);
        // A promise is passed on, for the event to be refused: its schema must be synchronous.
        if ('then' in result) return result as Promise<never>;
        return result.issues === undefined
          ? { value: { token: sent.token, payload: result.value } }
          : { issues: result.issues };
      },
    },
  };
}

/** The signals of a run: each is taken as soon as it comes, whether or not its step is ready for it, and only once. */
export class Signals {
  readonly #waits = new Map<string, Promise<unknown>>();

  /** Listens for all signals of a graph, checks them by their schemas; `onTaken` hears the token of each. */
  constructor(
    ctx: Pick<OrchestrationContext, 'waitFor'>,
    graph: FlowGraph,
    options: {
      readonly schemas: ReadonlyMap<string, StandardSchema>;
      readonly onTaken: (signal: string, token: string) => void;
    },
  ) {
    const { schemas, onTaken } = options;
    for (const { signal } of graph.steps) {
      if (signal === undefined) continue;
      let sent: string | undefined;
      const event = sentEvent(signal, schemas.get(signal), (token) => (sent = token));
      const taken = ctx.waitFor(event).then(
        ({ token, payload }) => {
          onTaken(signal, token);
          return payload;
        },
        (error: unknown) => {
          // A payload that does not fit was taken, too: its step fails, and its sender need not wait.
          if (sent !== undefined) onTaken(signal, sent);
          throw error;
        },
      );
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
