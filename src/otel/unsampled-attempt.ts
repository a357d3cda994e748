import {
  context as contextApi,
  ROOT_CONTEXT,
  trace as traceApi,
  type Context,
} from '@opentelemetry/api';
import type { AttemptSpan } from '../model/telemetry.ts';
import { traceIdsOf, type TraceContext, type TraceIds } from '../model/trace-context.ts';
import { toSpanContext } from './span-context.ts';

/** An attempt without a span, because its caller was not sampled or tracing is off. Spans of the handler follow the caller. */
export class UnsampledAttempt implements AttemptSpan {
  readonly #trace: TraceContext | undefined;

  constructor(trace: TraceContext | undefined) {
    this.#trace = trace;
  }

  get ids(): TraceIds | undefined {
    return this.#trace && traceIdsOf(this.#trace);
  }

  run<Result>(handler: () => Result): Result {
    const parent = this.#trace === undefined ? ROOT_CONTEXT : new CallerContext(this.#trace);
    return contextApi.with(parent, handler);
  }

  end(): void {
    // There is no span.
  }
}

/** The context of the caller. Converted when it is read: most handlers make no spans. */
class CallerContext implements Context {
  readonly #trace: TraceContext;
  #converted: Context | undefined;

  constructor(trace: TraceContext) {
    this.#trace = trace;
  }

  get #context(): Context {
    return (this.#converted ??= traceApi.setSpanContext(ROOT_CONTEXT, toSpanContext(this.#trace)));
  }

  getValue(key: symbol): unknown {
    return this.#context.getValue(key);
  }

  setValue(key: symbol, value: unknown): Context {
    return this.#context.setValue(key, value);
  }

  deleteValue(key: symbol): Context {
    return this.#context.deleteValue(key);
  }
}
