import type { Clock } from '../../model/clock.ts';
import { maxMetricNames, storeInstruments } from '../../model/metrics/instruments.ts';
import type { MetricLabels, MetricSink } from '../../model/telemetry.ts';
import type { LimitsRecord } from '../../providers/contract/limits.ts';
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
  const limits = async (
    valueOf: (record: LimitsRecord) => number | undefined,
  ): Promise<Samples> => {
    const { records } = await provider.listLimits({ limit: maxMetricNames });
    return limitSamples(records, valueOf);
  };
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
    sink.observe(storeInstruments.limitRunning, () => limits(({ running }) => running)),
    sink.observe(storeInstruments.limitMax, () => limits(({ effective }) => effective.global)),
    sink.observe(storeInstruments.limitWaiting, () => limits(({ waiting }) => waiting)),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** The samples of a figure of limited definitions. Keys are not labels: their number has no bound. */
function limitSamples(
  records: readonly LimitsRecord[],
  valueOf: (record: LimitsRecord) => number | undefined,
): Samples {
  return records.flatMap((record) => {
    const { kind, name } = record;
    const value = valueOf(record);
    return value === undefined ? [] : [[{ kind, name }, value] as const];
  });
}
