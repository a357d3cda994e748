import { expect, it } from 'vitest';
import { activity } from '../../orchestration/activity.ts';
import { orchestration } from '../../orchestration/orchestration.ts';
import { task } from '../../tasks/task.ts';
import { readWorkerModule } from './worker-module.ts';

const hello = orchestration('hello', async () => 1);
const greet = activity('greet', async () => 1);
const mail = task('mail', async () => 1);

it('registers every exported definition by any name, also in arrays, and each once', () => {
  const { options, summary } = readWorkerModule(
    { hello, alias: hello, list: [greet, mail], other: 7, nothing: null, helper: () => hello },
    'worker.ts',
  );
  expect(options).toEqual({
    orchestrations: [hello],
    activities: [greet],
    tasks: [mail],
    flows: [],
  });
  expect(summary).toBe('1 orchestration, 1 activity, 1 task');
});

it('takes a default export as a definition, as a list, or as options with definitions', () => {
  expect(readWorkerModule({ default: hello }, 'w').options.orchestrations).toEqual([hello]);
  expect(readWorkerModule({ default: [hello, greet] }, 'w').options.activities).toEqual([greet]);
  const byDefault = { activityConcurrency: 3, tasks: [mail] };
  expect(readWorkerModule({ hello, default: byDefault }, 'w').options).toEqual({
    activityConcurrency: 3,
    orchestrations: [hello],
    activities: [],
    tasks: [mail],
    flows: [],
  });
});

it('throws for a module without definitions', () => {
  expect(() => readWorkerModule({ value: 1, default: { name: 'x' } }, 'src/worker.ts')).toThrow(
    'src/worker.ts exports no orchestration, activity, task or flow.',
  );
});
