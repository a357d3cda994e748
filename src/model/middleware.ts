import { PerdureError } from './failures/errors.ts';
import { invalidOption, readFields } from './option-fields.ts';
import type { TracedCall } from './telemetry.ts';
import type { Headers } from './values/headers.ts';

/** Runs the rest of a call: the later middleware, then the handler. Returns its result. Can be called once. */
export type Next = () => Promise<unknown>;

/** A call of a client that changes an instance or a schedule. */
export interface ClientCall {
  /** `start`: also `submit` of a job. `schedule`: `schedules.put`. `trigger`: `schedules.trigger` and `schedules.backfill`. */
  readonly kind: TracedCall['kind'];
  /** The orchestration, task, event, update or schedule. Absent for a cancel. */
  readonly name?: string | undefined;
  /** Absent for a schedule, and for a call that starts several runs. */
  readonly instanceId?: string | undefined;
}

/** A run of the code of an orchestration. */
export interface OrchestrationCall {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  readonly instanceId: string;
  readonly executionId: number;
  readonly input: unknown;
  readonly headers: Headers;
  /** Whether recorded events are being replayed: earlier runs of the middleware got to this point before. */
  readonly isReplaying: boolean;
}

/** An attempt of an activity. */
export interface ActivityCall {
  readonly kind: 'activity';
  readonly name: string;
  readonly instanceId: string;
  /** The orchestration that called it. */
  readonly orchestration: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly headers: Headers;
  /** Aborts when the attempt is canceled. */
  readonly signal: AbortSignal;
}

/** An attempt of a task, or of its `onFail` handler. */
export interface TaskCall {
  readonly kind: 'task' | 'onFail';
  readonly name: string;
  readonly instanceId: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly headers: Headers;
  /** Aborts when the attempt is canceled. */
  readonly signal: AbortSignal;
}

/**
 * Functions around calls. Each gets the call and `next`, and returns the result of the call, changed or not. An error that it
 * throws is the error of the call.
 */
export interface Middleware {
  /**
   * Around calls of `client`: starts, jobs, events, updates, cancels and changes of schedules. Without `next()` the call
   * rejects with `INVALID_INPUT`. `next()` of a job resolves once the job is stored. An error rejects its `result()`, and
   * cancels its run if it was stored and has not ended.
   */
  readonly client?: (call: ClientCall, next: Next) => unknown;
  /**
   * Around the code of orchestrations. It runs again with every replay, so it follows the rules of orchestration code: it
   * awaits nothing but `next()`, and depends only on the call. It cannot write to the history.
   */
  readonly orchestration?: (call: OrchestrationCall, next: Next) => unknown;
  /** Around each attempt of an activity. An error fails the attempt, which is retried by its policy. */
  readonly activity?: (call: ActivityCall, next: Next) => unknown;
  /** Around each attempt of a task and of `onFail`. An error fails the attempt, which is retried by its policy. */
  readonly task?: (call: TaskCall, next: Next) => unknown;
}

const kinds = ['client', 'orchestration', 'activity', 'task'] as const;
type Kind = (typeof kinds)[number];
type CallOf<Of extends Kind> = Parameters<NonNullable<Middleware[Of]>>[0];
type Hook<Of extends Kind> = (call: CallOf<Of>, next: Next) => unknown;

/** The middleware of a `Perdure` object, in the order in which it was added. */
export class MiddlewareChain {
  readonly #hooks: { readonly [Of in Kind]: Hook<Of>[] } = {
    client: [],
    orchestration: [],
    activity: [],
    task: [],
  };

  /** Adds middleware. The first one is the outermost. Throws `INVALID_OPTION`. */
  add(middleware: Middleware): void {
    const given = readFields(middleware, 'use()', kinds);
    for (const kind of kinds) {
      const hook = given[kind];
      if (hook === undefined) continue;
      if (typeof hook !== 'function') throw invalidOption(kind, hook, 'a function (call, next)');
      (this.#hooks[kind] as unknown[]).push(hook);
    }
  }

  /** Whether there is none of a kind. Then nothing is called, and nothing is allocated. */
  isEmpty(kind: Kind): boolean {
    return this.#hooks[kind].length === 0;
  }

  /** Calls `inner` inside the middleware. */
  run<Of extends Kind>(kind: Of, call: CallOf<Of>, inner: () => unknown): Promise<unknown> {
    const hooks: readonly Hook<Of>[] = this.#hooks[kind];
    const runFrom = async (index: number): Promise<unknown> => {
      const hook = hooks[index];
      if (hook === undefined) return inner();
      let isCalled = false;
      return hook(call, () => {
        if (isCalled) {
          throw new PerdureError(
            'INVALID_INPUT',
            `The ${kind} middleware called next() twice. Call it once.`,
          );
        }
        isCalled = true;
        return runFrom(index + 1);
      });
    };
    return runFrom(0);
  }
}
