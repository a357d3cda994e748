import { event } from '../../../src/index.ts';
import { flow, gt } from '../../../src/flows.ts';
import type { Stage } from './stage.ts';

export const approved = event<{ readonly by: string }>('approved');

/** A flow with parallel steps, a map, a reduce, a condition and a signal. */
export function catalogueFlow(stage: Stage) {
  return flow('importCatalogue')
    .input<{ readonly feed: string; readonly images: number; readonly prices: 'ok' | 'broken' }>()
    .step('fetchManifest', async (ctx, { input }) => {
      await stage.work(ctx, `fetchManifest ${input.feed}`, 1_200);
      return { images: Array.from({ length: input.images }, (_, index) => `img-${index}.jpg`) };
    })
    .step('validate', { needs: ['fetchManifest'] }, async (ctx, { fetchManifest }) => {
      await stage.work(ctx, 'validate', 3_900);
      return { valid: fetchManifest.images.length };
    })
    .step(
      'loadPrices',
      { retry: { maxAttempts: 3, initialDelay: '10ms' } },
      async (ctx, { input }) => {
        await stage.work(ctx, `loadPrices ${input.feed}`, 2_100);
        if (input.prices === 'broken') {
          throw Object.assign(new Error('Price list has no column "vat"'), { code: 'BAD_PRICES' });
        }
        return { changed: 3.2 };
      },
    )
    .map(
      'resizeImages',
      {
        needs: ['validate'],
        over: ({ fetchManifest }) => fetchManifest.images,
        concurrency: 24,
        retry: { maxAttempts: 5 },
      },
      async (ctx, image) => {
        await stage.work(ctx, `resizeImages ${ctx.runId} ${ctx.index}`, 12);
        return { image, bytes: 40_960 + (ctx.index ?? 0) };
      },
    )
    .step('diffPrices', { needs: ['loadPrices'] }, async (ctx, { loadPrices }) => {
      await stage.work(ctx, 'diffPrices', 640);
      return loadPrices.changed;
    })
    .step(
      'alertPricing',
      { needs: ['diffPrices'], when: ({ diffPrices }) => gt(diffPrices, 5) },
      () => 'alerted',
    )
    .reduce(
      'foldSizes',
      { over: ({ resizeImages }) => resizeImages, initial: 0 },
      (_ctx, sum, { bytes }) => sum + bytes,
    )
    .step('approve', { needs: ['diffPrices'], signal: approved }, (_ctx, { signal }) => signal.by)
    .step('publish', { needs: ['foldSizes', 'approve'] }, async (ctx, { foldSizes }) => {
      await stage.work(ctx, 'publish', 800);
      return { bytes: foldSizes };
    })
    .step('notify', { after: ['publish'] }, () => 'notified')
    .output('publish');
}
