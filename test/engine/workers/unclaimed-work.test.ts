import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { Perdure, type StartWorkerOptions } from '../../../src/perdure.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { task } from '../../../src/tasks/task.ts';
import { engineStores } from '../engine-store.ts';

const ship = activity('ship', async () => 'shipped');
const order = orchestration('order', async (ctx) => ctx.call(ship));
const oldVersion = orchestration('order', async (ctx) => ctx.waitFor('go'), { version: '1' });
const newVersion = orchestration('order', async (ctx) => ctx.waitFor('go'), { version: '2' });
const mail = task('mail', async () => 'sent');

let lines: string[];
beforeEach(() => {
  lines = [];
  vi.spyOn(console, 'warn').mockImplementation((line: string) => void lines.push(line));
});
afterEach(() => vi.restoreAllMocks());

describe.each(['SQLite', 'PostgreSQL'] as const)('work that no worker can run (%s)', (kind) => {
  const newStore = engineStores(kind);

  async function open() {
    const store = await newStore();
    onTestFinished(() => store.remove());
    const clock = new FakeClock();
    const perdure = await Perdure.open(await store.open({ clock }), { clock });
    onTestFinished(() => perdure.close());
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 1_000) {
        await clock.advance(1_000);
        // Work that a timer started needs the event loop, and PostgreSQL needs more time.
        await new Promise((resolve) => setTimeout(resolve, kind === 'SQLite' ? 1 : 15));
      }
    };
    const startWorker = (options: StartWorkerOptions) => perdure.startWorker(options);
    return { perdure, client: perdure.client, clock, pass, startWorker };
  }

  /** Advances the clock until each text has been logged. */
  async function warned(pass: (ms: number) => Promise<void>, ...texts: readonly string[]) {
    const isThere = (): boolean => texts.every((text) => lines.some((line) => line.includes(text)));
    for (let seconds = 0; seconds < 600 && !isThere(); seconds += 1) await pass(1_000);
    expect(texts.filter((text) => !lines.some((line) => line.includes(text)))).toEqual([]);
  }

  it('a worker warns of unclaimed work once per name and minute', async () => {
    const { client, clock, pass, startWorker } = await open();
    /** Times of the warnings of "ship". */
    const shipAt: number[] = [];
    vi.mocked(console.warn).mockImplementation((line: string) => {
      lines.push(line);
      if (line.includes('"ship"')) shipAt.push(clock.now());
    });
    await startWorker({ orchestrations: [order] });
    await client.start(order);
    await client.start('invoice');
    await client.runTask(mail);
    await warned(pass, 'activity: "ship"', 'orchestration: "invoice"', 'task: "mail"');
    expect(lines.find((line) => line.includes('ship'))).toMatch(
      /^perdure warn: no live worker has this activity registered { activity: "ship", dueForMs: \d+ }$/,
    );
    const deadline = clock.now() + 600_000;
    while (shipAt.length < 2 && clock.now() < deadline) await pass(1_000);
    const [firstAt = 0, secondAt = 0] = shipAt;
    expect(shipAt).toHaveLength(2);
    expect(secondAt - firstAt).toBeGreaterThanOrEqual(59_000);
  });

  it('a worker warns of the task whose calls are unclaimed', async () => {
    const { client, pass, startWorker } = await open();
    const notify = orchestration('notify', (ctx) => ctx.runTask(mail));
    await startWorker({ orchestrations: [notify] });
    await client.start(notify);
    await warned(pass, 'no live worker has this task registered');
    expect(lines[0]).toContain('{ task: "mail", dueForMs: ');
  });

  it('a worker warns of an instance whose version is no longer registered', async () => {
    const { client, pass, startWorker } = await open();
    const before = await startWorker({ orchestrations: [oldVersion] });
    const handle = await client.start(oldVersion);
    await expect.poll(async () => (await client.get(handle.id))?.status).toBe('running');
    await before.stop();
    await startWorker({ orchestrations: [newVersion] });
    await handle.raiseEvent('go');
    await warned(pass, 'no live worker has this version');
    expect(lines[0]).toMatch(
      /orchestration: "order", version: "1", dueForMs: \d+, versions: \["2"\]/,
    );
  });

  it('a worker does not warn of work that another worker runs', async () => {
    const { client, pass, startWorker } = await open();
    await startWorker({ orchestrations: [order] });
    await startWorker({ activities: [ship] });
    const handles = await Promise.all([client.start(order), client.start(order)]);
    await pass(60_000);
    for (const handle of handles) expect(await handle.result()).toBe('shipped');
    expect(lines).toEqual([]);
  });
});
