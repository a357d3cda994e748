/** Prints the time and memory of a process that imports Perdure, and with a store also of its first result. */
const [what = '', store = ''] = process.argv.slice(2);

if (what === 'import' || what === 'result') {
  const { activity, orchestration, Perdure } = await import('perdure');
  if (what === 'result') {
    const greet = activity('greet', (_ctx, name: string) => `Hello, ${name}!`);
    const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
    const perdure = await Perdure.open(store);
    await perdure.startWorker({ orchestrations: [hello], activities: [greet] });
    const handle = await perdure.client.start(hello, 'World');
    if ((await handle.result()) !== 'Hello, World!') throw new Error('wrong result');
    report();
    await perdure.close();
  } else report();
} else report();

/** The time since the start of the process, and the processor time, which other programs change less. */
function report(): void {
  const ms = performance.now();
  const { user, system } = process.cpuUsage();
  const cpuMs = (user + system) / 1_000;
  process.stdout.write(JSON.stringify({ ms, cpuMs, rssMB: process.memoryUsage.rss() / 1e6 }));
}
