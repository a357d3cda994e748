/**
 * `node dbos.mjs hello|latency|steps|stepRate <setup as JSON>`: the same work on DBOS. `setup.poolSize` is the documented
 * setting for throughput; the caller tries several and takes the best.
 */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { check, measureRate, median, percentile, runInLanes } from '../benchmark.ts';

const [what = '', setup = '{}'] = process.argv.slice(2);
const { store, quick, poolSize, count } = JSON.parse(setup);

const hello = DBOS.registerWorkflow(
  (name) => DBOS.runStep(() => Promise.resolve(`Hello, ${String(name)}!`), { name: 'greet' }),
  { name: 'hello' },
);

const steps = DBOS.registerWorkflow(
  async (length) => {
    let value = 0;
    for (let step = 0; step < length; step++) {
      value = await DBOS.runStep(() => Promise.resolve(value + 1), { name: 'increment' });
    }
    return value;
  },
  { name: 'steps' },
);

async function runHello() {
  const handle = await DBOS.startWorkflow(hello)('World');
  check((await handle.getResult()) === 'Hello, World!', 'hello');
}

function measureHello() {
  return measureRate(quick, 64, runHello);
}

async function measureLatency() {
  const instances = quick ? 100 : 1_000;
  await runInLanes(instances, 1, runHello);
  const latencies = [];
  await runInLanes(instances, 1, async () => {
    const begun = performance.now();
    await runHello();
    latencies.push(performance.now() - begun);
  });
  return {
    p50Ms: percentile(latencies, 0.5),
    p95Ms: percentile(latencies, 0.95),
    p99Ms: percentile(latencies, 0.99),
  };
}

async function measureSteps() {
  const run = async (length) => {
    const begun = performance.now();
    const handle = await DBOS.startWorkflow(steps)(length);
    check((await handle.getResult()) === length, 'steps');
    return (performance.now() - begun) / length;
  };
  await run(quick ? 200 : 1_000);
  const times = [];
  for (let done = 0; done < 1_000; done += count) times.push(await run(count));
  return { msPerStep: median(times) };
}

const stepsPerRun = 100;

async function measureStepRate() {
  const { perSecond } = await measureRate(quick, 64, async () => {
    const handle = await DBOS.startWorkflow(steps)(stepsPerRun);
    check((await handle.getResult()) === stepsPerRun, 'steps');
  });
  return { perSecond: perSecond * stepsPerRun };
}

const measures = {
  hello: measureHello,
  latency: measureLatency,
  steps: measureSteps,
  stepRate: measureStepRate,
};
const measure = measures[what];
if (measure === undefined) throw new Error(`Unknown measurement ${JSON.stringify(what)}.`);

DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: store,
  systemDatabasePoolSize: poolSize,
  logLevel: 'error',
});
await DBOS.launch();
const figures = await measure();
await DBOS.shutdown();
process.stdout.write(JSON.stringify(figures));
