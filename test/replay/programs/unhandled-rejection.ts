/**
 * Process with unhandled rejections, inside or outside an orchestration, depending on its argument.
 * The test that starts it reads one fact per output line.
 */
import { setImmediate as immediate } from 'node:timers/promises';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { createProgram } from '../../../src/orchestration/program.ts';
import { silentLogger } from '../../../src/model/logger.ts';
import { Execution } from '../../../src/replay/execution.ts';

const say = (fact: string): void => {
  process.stdout.write(`${fact}\n`);
};

const definition = orchestration('careless', async (ctx) => {
  await ctx.call('first');
  void ctx.call('second').then(() => {
    throw new Error('nobody handles this');
  });
  return ctx.call('third');
});

const handledLate = orchestration('late', async (ctx) => {
  const branch = ctx.call('first').then(() => {
    throw new Error('handled in the next event');
  });
  await ctx.call('second');
  return branch.catch((error: Error) => error.message);
});

const tooLate = orchestration('tooLate', async () => {
  void Promise.resolve().then(() => {
    throw new Error('after the end');
  });
  return 'done';
});

function execute(subject: typeof definition, onBroken: () => void): Execution {
  return new Execution({
    instanceId: subject.name,
    incarnation: 'i',
    executionId: 1,
    program: createProgram(subject, { log: silentLogger }),
    onBroken,
  });
}

const start = (name: string) => ({ kind: 'start', name, version: null, payload: null }) as const;
const completed = (operation: number) =>
  ({ kind: 'activityCompleted', executionId: 1, operation, payload: '1' }) as const;

async function inside(): Promise<void> {
  const broken = Promise.withResolvers<void>();
  const careless = execute(definition, broken.resolve);
  const neighbour = execute(definition, () => say('neighbour broken'));
  const turn = async (
    execution: Execution,
    ...messages: Parameters<Execution['turn']>[0]['messages'][number][]
  ) => (await execution.turn({ messages, nowMs: 1, version: '1' })).events;
  await turn(careless, start('careless'));
  await turn(neighbour, start('careless'));
  await turn(careless, completed(1));
  await turn(neighbour, completed(1));
  await turn(careless, completed(2));
  await broken.promise;
  say('broken');
  const [last] = await turn(careless, { kind: 'wake' });
  say(last?.kind === 'executionFailed' ? `failed: ${last.failure.message}` : 'not failed');
  const end = (await turn(neighbour, completed(3))).at(-1);
  say(`neighbour ${end?.kind}`);

  const late = execute(handledLate, () => say('late reported'));
  await turn(late, start('late'));
  await turn(late, completed(1));
  await immediate();
  await immediate();
  // Still unhandled, so the next turn fails. In one batch the code handles it in time.
  say(`late ${(await turn(late, completed(2))).at(-1)?.kind}`);
  const prompt = execute(handledLate, () => say('prompt reported'));
  await turn(prompt, start('late'));
  say(`prompt ${(await turn(prompt, completed(1), completed(2))).at(-1)?.kind}`);

  process.on('warning', (warning) => say(`${warning.name}: ${warning.message}`));
  await turn(
    execute(tooLate, () => say('tooLate broken')),
    start('tooLate'),
  );
  await immediate();
  await immediate();
}

async function outside(): Promise<void> {
  // Installs the guard, as every process that runs an orchestration does.
  const execution = execute(definition, () => undefined);
  await execution.turn({ messages: [start('careless')], nowMs: 1, version: '1' });
  process.on('exit', (code) => say(`exit ${code}`));
  void Promise.reject(new Error('foreign'));
  await immediate();
  await immediate();
  say('survived');
}

const [mode, listener] = process.argv.slice(2);
if (listener === 'unhandledRejection') {
  process.on('unhandledRejection', (reason) => say(`listener: ${String(reason)}`));
}
if (listener === 'uncaughtException') {
  process.on('uncaughtException', (error, origin) => say(`${origin}: ${error.message}`));
}
await (mode === 'inside' ? inside() : outside());
