/** Process with a piped output that logs inside an orchestration, with or without patched globals. */
import { silentLogger, type Logger } from '../../../src/model/logger.ts';
import { installDeterministicGlobals } from '../../../src/orchestration/deterministic-globals.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { createProgram } from '../../../src/orchestration/program.ts';
import { Execution } from '../../../src/replay/execution.ts';

const mode = process.argv[2];
if (mode !== 'leave') installDeterministicGlobals();

const logged = Promise.withResolvers<void>();
const slowSink: Logger = {
  ...silentLogger,
  info: (_, message) => {
    const write = (): void => {
      console.log(`${message} after a timer`);
      logged.resolve();
    };
    process.nextTick(() => setTimeout(write, 1));
  },
};

const definition = orchestration('logs', async (ctx) => {
  if (mode === 'tick') process.nextTick(() => undefined);
  console.log('console line');
  ctx.log.info({}, 'sink line');
  return new Date().toISOString();
});

const execution = new Execution({
  instanceId: 'logs',
  incarnation: 'i',
  executionId: 1,
  program: createProgram(definition, { log: slowSink }),
});
const { events } = await execution.turn({
  messages: [{ kind: 'start', name: 'logs', version: null, payload: null }],
  nowMs: 1_000,
  version: '1',
});
const last = events.at(-1);
if (last?.kind === 'executionCompleted') {
  await logged.promise;
  console.log(`returned ${JSON.parse(last.payload ?? '')}`);
} else if (last?.kind === 'executionFailed') {
  console.log(`${last.failure.code} ${last.failure.message}`);
}
