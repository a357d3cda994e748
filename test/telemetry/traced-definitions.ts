import { trace, type TracerProvider } from '@opentelemetry/api';
import { flow } from '../../src/flows.ts';
import { activity, orchestration } from '../../src/index.ts';

/** A run with retries, a crash, an event, a child and a timer. `onCrash` is called where the process is to be killed. */
export function tracedDefinitions(tracers: TracerProvider, onCrash: () => Promise<void>) {
  const first = activity('first', (ctx, name: string) => {
    const tracer = tracers.getTracer('application');
    return tracer.startActiveSpan('user work', (span) => {
      ctx.log.info({}, 'in the handler');
      const isNested = trace.getActiveSpan() === span;
      span.end();
      return Promise.resolve(isNested ? name : 'no active span');
    });
  });
  const flaky = activity(
    'flaky',
    (ctx) => {
      if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt}`);
      return Promise.resolve(ctx.attempt);
    },
    { retry: { maxAttempts: 5, backoff: 'fixed', initialDelay: 5 } },
  );
  const crashes = activity('crashes', async () => {
    await onCrash();
    return 'survived';
  });
  const child = orchestration('sub', async (ctx) => ctx.call(last));
  const last = activity('last', () => Promise.resolve('done'));
  const order = orchestration('order', async (ctx, name: string) => {
    const results: unknown[] = [await ctx.call(first, name)];
    results.push(await ctx.call(flaky));
    results.push(await ctx.call(crashes));
    results.push(await ctx.waitFor('approved'));
    results.push(await ctx.child(child));
    await ctx.sleep(5);
    return results;
  });
  const retry = { maxAttempts: 5, backoff: 'fixed', initialDelay: 5 } as const;
  const delivery = flow('delivery')
    .input<string>()
    .step('pick', (_ctx, { input }) => input)
    .step('pack', { needs: ['pick'], retry }, (ctx) => {
      if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt}`);
      return ctx.attempt;
    })
    .step('send', { needs: ['pack'] }, async () => {
      await onCrash();
      return 'survived';
    })
    .step('note', { needs: ['send'] }, (_ctx, { send }) => `${send}, done`)
    .output();
  return {
    orchestrations: [order, child],
    activities: [first, flaky, crashes, last],
    flows: [delivery],
  };
}
