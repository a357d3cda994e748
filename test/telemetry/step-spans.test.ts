import { SpanKind, trace } from '@opentelemetry/api';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testOptions } from 'perdure/testing';
import { orchestration, type Telemetry } from '../../src/index.ts';
import { otel } from '../../src/otel.ts';
import { describeEngine } from '../engine/describe-engine.ts';
import { recordSpans, useAsyncContext } from './span-recorder.ts';

let undoContext: () => void;
beforeAll(() => (undoContext = useAsyncContext()));
afterAll(() => undoContext());

describeEngine(
  'spans of steps',
  (open) => {
    it('each attempt of a step has one span, whatever is replayed', async () => {
      const spans = recordSpans();
      const tracer = spans.provider.getTracer('application');
      const order = orchestration('order', async (ctx) => {
        const first = await ctx.run('first', () =>
          tracer.startActiveSpan('user work', (span) => {
            const isActive = trace.getActiveSpan() === span;
            span.end();
            return isActive;
          }),
        );
        const retry = { maxAttempts: 3, backoff: 'fixed', initialDelay: 5 } as const;
        const attempts = await ctx.run(
          'flaky',
          (step) => {
            if (step.attempt < 3) throw new Error(`attempt ${step.attempt}`);
            return step.attempt;
          },
          { retry },
        );
        const written = await ctx.transaction('write', async (tx) => {
          const { rows } = await tx.query<{ n: number }>('SELECT 1 AS n');
          return rows[0]?.n;
        });
        await ctx.sleep(5);
        const failed = await ctx
          .run('fails', () => {
            throw new Error('for good');
          })
          .catch((error: unknown) => String(error));
        return [first, attempts, written, failed];
      });
      const telemetry: Telemetry = otel({ tracerProvider: spans.provider });
      const { client } = await open(
        { orchestrations: [order], ...testOptions({ alwaysReplay: true }) },
        { telemetry },
      );
      const handle = await client.start(order);
      expect(await handle.result()).toEqual([
        true,
        3,
        1,
        "FailedError: Step 'fails' failed: for good",
      ]);
      const finished = () => spans.finished();
      await expect.poll(() => spans.open()).toBe(0);
      const [start] = finished().filter(({ name }) => name === 'start order');
      const runs = finished().filter(({ name }) => name.startsWith('run '));
      expect(
        runs.map(({ name, attributes, status }) => [
          name,
          attributes['perdure.attempt'],
          attributes['perdure.outcome'],
          status,
        ]),
      ).toEqual([
        ['run first', 1, 'completed', 0],
        ['run flaky', 1, 'retried', 2],
        ['run flaky', 2, 'retried', 2],
        ['run flaky', 3, 'completed', 0],
        ['run write', 1, 'completed', 0],
        ['run fails', 1, 'failed', 2],
      ]);
      for (const run of runs) {
        expect(run.kind).toBe(SpanKind.CONSUMER);
        expect(run.attributes).toMatchObject({
          'perdure.kind': 'step',
          'perdure.orchestration': 'order',
          'perdure.instance.id': handle.id,
        });
        const isRetry = run.attributes['perdure.attempt'] !== 1;
        expect(run.parentId).toBe(isRetry ? null : start?.spanId);
        expect(run.links).toEqual(isRetry ? [start?.spanId] : []);
      }
      const [work] = finished().filter(({ name }) => name === 'user work');
      expect(work?.parentId).toBe(runs[0]?.spanId);
    });

    it('the span of a canceled step ends as canceled', async () => {
      const spans = recordSpans();
      const waits = orchestration('waits', (ctx) =>
        ctx.run('wait', async (step) => {
          await step.emit('waiting');
          await new Promise((_, reject) => {
            step.signal.addEventListener('abort', () => reject(step.signal.reason as Error));
          });
        }),
      );
      const telemetry: Telemetry = otel({ tracerProvider: spans.provider });
      const { client } = await open({ orchestrations: [waits] }, { telemetry });
      const handle = await client.start(waits);
      await handle.stream().next();
      await handle.cancel({ wait: true });
      const runs = () => spans.finished().filter(({ name }) => name === 'run wait');
      await expect.poll(runs).toMatchObject([{ attributes: { 'perdure.outcome': 'canceled' } }]);
      await expect.poll(() => spans.open()).toBe(0);
    });
  },
  ['all fast paths', 'no warm cache', 'PostgreSQL'],
);
