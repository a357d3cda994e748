import type { Clock } from '../../model/clock.ts';
import { storeInstruments } from '../../model/metrics/instruments.ts';
import type { MetricLabels, MetricSink } from '../../model/telemetry.ts';
import type { QueueDepths } from '../../providers/contract/management.ts';
import type { Provider } from '../../providers/contract/provider.ts';

type Samples = readonly (readonly [MetricLabels, number])[];

const queues = ['orchestrations', 'activities', 'tasks'] as const;
const states = ['ready', 'delayed', 'claimed', 'paused'] as const;
const maxBlocked = 10_000;

/**
 * Observes the queues and the blocked instances of the store when metrics are collected, for processes without a server.
 * Every process reports the same numbers. Returns a function that ends it.
 */
export function observeStore(sink: MetricSink, provider: Provider, clock: Clock): () => void {
  const depths = async (toSamples: (depths: QueueDepths) => Samples): Promise<Samples> =>
    toSamples(await provider.queueDepths());
  const ends = [
    sink.observe(storeInstruments.queueAge, () =>
      depths((all) =>
        queues.map((queue) => {
          const { oldestReadyAt } = all[queue];
          const ms = oldestReadyAt === null ? 0 : Math.max(0, clock.now() - oldestReadyAt);
          return [{ queue }, ms / 1_000];
        }),
      ),
    ),
    sink.observe(storeInstruments.queueDepth, () =>
      depths((all) =>
        queues.flatMap((queue) =>
          states.map((state) => [{ queue, state }, all[queue][state]] as const),
        ),
      ),
    ),
    sink.observe(storeInstruments.blocked, async () => {
      const { count } = await provider.countInstances({
        filter: { blocked: true },
        cap: maxBlocked,
      });
      return [[{}, count]];
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}
