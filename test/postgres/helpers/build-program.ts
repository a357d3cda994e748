/** A worker process of one build of an application. Reports blocked instances and logged errors to its parent. */
import { Perdure } from '../../../src/index.ts';
import { createBuild, type BuildName } from './meter-builds.ts';

const [store = '', build = ''] = process.argv.slice(2);
const alarm = (text: string): void => void process.send?.({ alarm: text });

const perdure = await Perdure.open(store);
await perdure.startWorker({
  ...createBuild(build as BuildName),
  hooks: { instanceBlocked: ({ instanceId, reason }) => alarm(`${instanceId}: ${reason}`) },
  logger: {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: (fields, message) => alarm(`${message} ${JSON.stringify(fields)}`),
  },
});
process.once('disconnect', () => void perdure.close());
process.send?.({ ready: true });
