import {
  context as contextApi,
  ROOT_CONTEXT,
  trace as traceApi,
  type Context,
} from '@opentelemetry/api';
import type { AttemptSpan } from '../model/telemetry.ts';
import { traceIdsOf, type TraceContext, type TraceIds } from '../model/trace-context.ts';
import { toSpanContext } from './span-context.ts';

/**
 * An attempt without a span, because its caller was not sampled or tracing is off, and the context of its handler. Spans of
 * the handler follow the caller. The context is converted when it is read: most handlers make no spans.
 */
export class UnsampledAttempt implements AttemptSpan, Context {
  readonly #trace: TraceContext | undefined;
  #converted: Context | undefined;

  constructor(trace: TraceContext | undefined) {
    this.#trace = trace;
  }

  get ids(): TraceIds | undefined {
    return this.#trace && traceIdsOf(this.#trace);
  }

  run<Result>(handler: () => Result): Result {
    return contextApi.with(this, handler);
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

  get #context(): Context {
    const trace = this.#trace;
    return (this.#converted ??=
      trace === undefined
        ? ROOT_CONTEXT
        : traceApi.setSpanContext(ROOT_CONTEXT, toSpanContext(trace)));
  }
}
