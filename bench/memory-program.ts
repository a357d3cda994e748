/** Prints the memory of a worker process: idle on a store, or after some hellos. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration, Perdure } from 'perdure';

const [store = '', hellos = '0'] = process.argv.slice(2);
const greet = activity('greet', (_ctx, name: string) => `Hello, ${name}!`);
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const tenTimers = orchestration('tenTimers', (ctx) => ctx.sleep('30d'));
const perdure = await Perdure.open(store);
await perdure.startWorker({ orchestrations: [hello, tenTimers], activities: [greet] });
let left = Number(hellos);
const lane = async (): Promise<void> => {
  while (left > 0) {
    left -= 1;
    const handle = await perdure.client.start(hello, 'World');
    if ((await handle.result()) !== 'Hello, World!') throw new Error('wrong result');
  }
};
await Promise.all(Array.from({ length: 64 }, lane));
if (hellos === '0') await delay(2_000);
const rssMB = process.memoryUsage.rss() / 1e6;
const peakMB = (process.resourceUsage().maxRSS * 1_024) / 1e6;
process.stdout.write(JSON.stringify({ rssMB, peakMB }));
await perdure.close();
