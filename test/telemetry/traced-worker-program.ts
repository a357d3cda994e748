/** A worker with telemetry. Sends its spans on request, and exits with its parent. */
import { Perdure, silentLogger } from '../../src/index.ts';
import { otel } from '../../src/otel.ts';
import { recordSpans, useAsyncContext } from './span-recorder.ts';
import { tracedDefinitions } from './traced-definitions.ts';

const [, , store = '', role = ''] = process.argv;
useAsyncContext();
const spans = recordSpans();
const perdure = await Perdure.open(store, {
  telemetry: otel({ tracerProvider: spans.provider, instanceSpans: true }),
  logger: silentLogger,
});
await perdure.startWorker({
  ...tracedDefinitions(spans.provider, async () => {
    if (role !== 'victim') return;
    process.send?.({ kind: 'crashing' });
    await new Promise(() => undefined);
  }),
  name: role,
  // No instance stays warm: each turn after the first replays its history.
  warmCacheBytes: 0,
});
process.on('message', () => {
  process.send?.({ kind: 'spans', finished: spans.finished(), open: spans.open() });
});
process.once('disconnect', () => process.exit(0));
process.send?.({ kind: 'ready' });
