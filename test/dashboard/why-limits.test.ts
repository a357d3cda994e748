import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { orchestration, task } from 'perdure';
import { makeGate } from '../tasks/gate.ts';
import { instancePath } from './drive-page.ts';
import { describeDashboard, kindsOfPages } from './open-dashboard.ts';

/** Reads the banner of an instance. */
async function bannerOf(
  page: Page,
): Promise<{ sentence: string; consequence: string; tone: string | null }> {
  const banner = page.locator('.why');
  const text = (await banner.locator('p').textContent()) ?? '';
  const consequence = (await banner.locator('small').textContent()) ?? '';
  return {
    sentence: text.slice(0, text.length - consequence.length),
    consequence,
    tone: await banner.getAttribute('data-st'),
  };
}

describeDashboard(
  'the banner of waiting runs',
  ({ open }) => {
    test('names the limit, the key and the places of a run that waits for a limit', async () => {
      const gate = makeGate();
      const wait = () => gate.opened;
      const shared = task('shared', wait, { concurrency: { global: 1 } });
      const keyed = task('keyed', wait, { concurrency: { perKey: 1 } });
      const rated = task('rated', wait, { rate: { limit: 1, per: '1d', burst: 0 } });
      const importFiles = orchestration('importFiles', (ctx) => ctx.waitFor('end'), {
        concurrency: { perKey: 1 },
      });
      const nightly = orchestration('nightly', (ctx) => ctx.waitFor('end'), {
        concurrency: { global: 1 },
      });
      const { page, url, perdure } = await open({
        worker: { tasks: [shared, keyed, rated], orchestrations: [importFiles, nightly] },
        path: null,
      });
      const { client } = perdure;
      try {
        for (const one of [shared, keyed, rated]) {
          const first = await client.runTask(one, undefined, { id: `${one.name}-1`, key: 'acme' });
          await expect.poll(async () => (await client.why(first.id)).text).toMatch(/running/i);
          await client.runTask(one, undefined, { id: `${one.name}-2`, key: 'acme' });
          await client.runTask(one, undefined, { id: `${one.name}-3`, key: 'acme' });
        }
        for (const one of [importFiles, nightly]) {
          const first = await client.start(one, undefined, { id: `${one.name}-1`, key: 'acme' });
          await expect.poll(async () => (await first.status()).status).toBe('running');
          const options = one === nightly ? {} : { key: 'acme' };
          await client.start(one, undefined, { id: `${one.name}-2`, ...options });
        }
        const debounce = { key: 'doc-1', wait: '2h' };
        const debounced = await client.runTask(shared, undefined, { debounce });
        await client.runTask(shared, undefined, { debounce });
        const delayed = await client.runTask(shared, undefined, { delay: '2h' });

        const raise = 'It starts when a run ends. Raise the limit on the Queues page.';
        const begins = 'It begins when one of them has ended, or when the limit is raised.';
        const expected = [
          ['shared-2', 'queued', 'shared waits for a place: 1 of 1 is in use.', raise],
          [
            'keyed-2',
            'queued',
            'keyed waits for a place for the key acme: 1 of 1 is in use.',
            raise,
          ],
          [
            'keyed-3',
            'queued',
            'keyed waits for a place for the key acme: 1 of 1 is in use.',
            `1 run of the same key starts before it. ${raise}`,
          ],
          [
            'rated-2',
            'queued',
            /^rated waits for its rate of 1 per day: the next one starts in 23 h .+\.$/,
            'Raise the rate on the Queues page.',
          ],
          [
            'importFiles-2',
            'pending',
            'Waits to begin: 1 instance of importFiles has begun, and its limits allow no more of key acme.',
            begins,
          ],
          [
            'nightly-2',
            'pending',
            'Waits to begin: 1 instance of nightly has begun, and its limits allow no more.',
            begins,
          ],
          [
            debounced.id,
            'pending',
            /^Debounced by key doc-1: starts in (2 h|1 h 59 min), moved 1 time\.$/,
            'A further start with the key moves it again, and replaces its input.',
          ],
          [
            delayed.id,
            'queued',
            /^shared starts in (2 h|1 h 59 min)\.$/,
            'It uses no worker until then.',
          ],
        ] as const;
        for (const [run, tone, sentence, consequence] of expected) {
          await page.goto(new URL(instancePath(run), url).href);
          await page.getByRole('heading', { level: 1, name: run }).waitFor();
          const matching =
            typeof sentence === 'string' ? sentence : expect.stringMatching(sentence);
          await expect
            .poll(() => bannerOf(page), { message: run, timeout: 5_000 })
            .toEqual({ sentence: matching, consequence, tone });
        }
      } finally {
        gate.open();
      }
    });
  },
  { kinds: kindsOfPages },
);
