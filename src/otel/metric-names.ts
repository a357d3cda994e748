import type { Attributes } from '@opentelemetry/api';
import type { Instrument, MetricLabels } from '../model/telemetry.ts';

/** `perdure_turn_duration_seconds` becomes `perdure.turn.duration`, with the unit `s`. */
export function metricName({ name }: Instrument): string {
  return name.replace(/_(?:total|seconds)$/, '').replaceAll('_', '.');
}

const attributesByLabels = new WeakMap<MetricLabels, Attributes>();

/** `name` becomes `perdure.name`. Cached: the labels of a sample are the same object each time. */
export function attributesOf(labels: MetricLabels): Attributes {
  let attributes = attributesByLabels.get(labels);
  if (attributes === undefined) {
    attributes = Object.fromEntries(
      Object.entries(labels).map(([label, value]) => [`perdure.${label}`, value]),
    );
    attributesByLabels.set(labels, attributes);
  }
  return attributes;
}

/** Groups samples with equal labels. Several `Perdure` objects may share a sink: their labels are equal, not identical. */
export function groupByLabels<Sample extends { readonly labels: MetricLabels }>(
  samples: Iterable<Sample>,
): readonly (readonly [Sample, ...Sample[]])[] {
  const groups = new Map<string, [Sample, ...Sample[]]>();
  for (const sample of samples) {
    const key = JSON.stringify(sample.labels);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [sample]);
    else group.push(sample);
  }
  return [...groups.values()];
}

/** Adds up the values with equal labels. */
export function sumByLabels(
  samples: Iterable<{ readonly labels: MetricLabels; readonly value: number }>,
): readonly { readonly labels: MetricLabels; readonly value: number }[] {
  return groupByLabels(samples).map((group) => ({
    labels: group[0].labels,
    value: group.reduce((sum, { value }) => sum + value, 0),
  }));
}
