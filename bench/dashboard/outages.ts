import { serve } from 'perdure/server';
import type { Figures } from '../benchmark.ts';
import { forkProgram } from '../fork-program.ts';
import { waitsForEvent } from './changes.ts';
import { exists, inTab, medianOf, timeLoad, untilPainted, type DashboardBench } from './tab.ts';

/** A16: from the SIGKILL of a worker until the page of workers shows that it is gone. Once: it takes three heartbeats. */
export async function killedWorker(bench: DashboardBench): Promise<Figures> {
  const worker = await forkProgram('worker-program.ts', [bench.store]);
  const row = `[...document.querySelectorAll('table tr')].find((row) => row.textContent.includes('-${worker.pid}'))`;
  return await inTab(bench, async (page) => {
    await timeLoad(page, `${bench.url}workers`, `${row}?.textContent.includes('Alive')`);
    const begun = performance.now();
    worker.kill('SIGKILL');
    await page.evaluate(untilPainted(`/Stale|Died/.test(${row}?.textContent)`));
    return { killedWorkerMs: performance.now() - begun };
  });
}

/** A17: from the start of a server until a page that was open during the outage is current. */
export async function restartedServer(bench: DashboardBench): Promise<Figures> {
  const restartMs = await medianOf((round) =>
    inTab(bench, async (page) => {
      const id = `outage-${round}`;
      await bench.client.start(waitsForEvent, undefined, { id });
      const first = await serve(bench.perdure, { port: 0, dashboard: true });
      const url = `${first.url}/instances/${id}`;
      await timeLoad(page, url, exists('.chip[data-st="running"]'));
      await page.evaluate('globalThis.isFirstLoad = true');
      await first.close();
      await page.getByText('Connection lost').first().waitFor();
      await bench.client.raiseEvent(id, 'go');
      const begun = performance.now();
      await using _second = await serve(bench.perdure, {
        port: Number(new URL(first.url).port),
        dashboard: true,
      });
      await page.locator('.chip[data-st="completed"]').waitFor();
      await page.getByText('Connection lost').first().waitFor({ state: 'detached' });
      const ms = performance.now() - begun;
      if ((await page.evaluate('isFirstLoad')) !== true) throw new Error('The page was reloaded.');
      return ms;
    }),
  );
  return { restartMs };
}
