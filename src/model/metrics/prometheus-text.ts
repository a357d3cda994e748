import type { InstrumentKind } from '../telemetry.ts';

/** The labels of a sample in the text format of Prometheus. */
type TextLabels = Readonly<Record<string, string | number>>;

/** A sample: labels and value. */
export type TextSample = readonly [labels: TextLabels, value: number];

/** The counts of a histogram with the same labels. */
export interface TextHistogram {
  readonly labels: TextLabels;
  readonly bounds: readonly number[];
  /** One count per bound, not cumulative, and one for the values above all bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Formats a counter or gauge. */
export function formatMetric(
  ...[name, type, help, samples]: readonly [
    name: string,
    type: Exclude<InstrumentKind, 'histogram'>,
    help: string,
    samples: readonly TextSample[],
  ]
): string {
  const lines = samples.map(([labels, value]) => `${name}${formatLabels(labels)} ${value}\n`);
  return head(name, type, help) + lines.join('');
}

/** Formats a histogram, with cumulative buckets. */
export function formatHistogram(
  name: string,
  help: string,
  histograms: readonly TextHistogram[],
): string {
  return head(name, 'histogram', help) + histograms.map((one) => formatOne(name, one)).join('');
}

/** Counts the samples of a text. */
export function countSamples(text: string): number {
  return text.match(/^[^#\n]/gm)?.length ?? 0;
}

function formatOne(name: string, { labels, bounds, counts, sum }: TextHistogram): string {
  let count = 0;
  const buckets = [...bounds.map(String), '+Inf'].map((le, index) => {
    count += counts[index] ?? 0;
    return `${name}_bucket${formatLabels({ ...labels, le })} ${count}\n`;
  });
  const shown = formatLabels(labels);
  return `${buckets.join('')}${name}_sum${shown} ${sum}\n${name}_count${shown} ${count}\n`;
}

function head(name: string, type: InstrumentKind, help: string): string {
  const escaped = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`;
}

function formatLabels(labels: TextLabels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** Escapes a label value as the text format of Prometheus requires: names of definitions may contain any character. */
function escapeLabel(value: string | number): string {
  return String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
