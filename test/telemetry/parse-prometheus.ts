/** One metric of the text format of Prometheus. */
export interface ParsedMetric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly samples: readonly ParsedSample[];
}

/** One sample: its full name, its labels and its value. */
interface ParsedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const labelName = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/**
 * Parses the text format of Prometheus, version 0.0.4, and throws for everything that it does not allow: samples without
 * HELP and TYPE, metrics that are not contiguous, duplicate samples, wrong escapes, and histograms whose buckets are not
 * cumulative, ordered and complete.
 */
export function parsePrometheus(text: string): ReadonlyMap<string, ParsedMetric> {
  if (!text.endsWith('\n')) throw new Error('The last line has no line feed.');
  const metrics = new Map<string, ParsedMetric & { samples: ParsedSample[] }>();
  const seen = new Set<string>();
  let help: { readonly name: string; readonly text: string } | undefined;
  let current: (ParsedMetric & { samples: ParsedSample[] }) | undefined;
  for (const [index, line] of text.slice(0, -1).split('\n').entries()) {
    const fail = (reason: string): never => {
      throw new Error(`Line ${index + 1}: ${reason}: ${line}`);
    };
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === 'HELP') {
      if (!metricName.test(name)) fail('invalid name');
      if (/\\(?![\\n])/.test(rest)) fail('invalid escape');
      help = { name, text: rest };
    } else if (keyword === 'TYPE') {
      if (help?.name !== name) fail('TYPE without HELP');
      if (metrics.has(name)) fail('metric twice');
      if (!/^(?:counter|gauge|histogram)$/.test(rest)) fail('unknown type');
      if (rest === 'counter' && !name.endsWith('_total')) fail('counter without _total');
      const type = rest as ParsedMetric['type'];
      current = { name, type, help: help?.text ?? '', samples: [] };
      metrics.set(name, current);
    } else if (line.startsWith('#') || line === '') fail('unexpected line');
    else {
      const sample = parseSample(line, fail);
      if (current === undefined || familyOf(sample.name, current) !== current.name) {
        return fail('sample outside of its metric');
      }
      const sorted = Object.entries(sample.labels).toSorted(([a], [b]) => (a < b ? -1 : 1));
      const key = JSON.stringify([sample.name, sorted]);
      if (seen.has(key)) fail('duplicate sample');
      seen.add(key);
      current.samples.push(sample);
    }
  }
  for (const metric of metrics.values()) if (metric.type === 'histogram') checkHistogram(metric);
  return metrics;
}

function familyOf(sample: string, { type }: ParsedMetric): string {
  return type === 'histogram' ? sample.replace(/_(?:bucket|sum|count)$/, '') : sample;
}

function parseSample(line: string, fail: (reason: string) => never): ParsedSample {
  const [name = ''] = /^[^{ ]+/.exec(line) ?? [];
  if (!metricName.test(name)) fail('invalid name');
  let at = name.length;
  const labels: Record<string, string> = {};
  if (line[at] === '{') {
    at += 1;
    while (line[at] !== '}') {
      const [whole, label = '', value = ''] =
        /^([^=]+)="((?:[^"\\]|\\\\|\\"|\\n)*)"/.exec(line.slice(at)) ?? fail('invalid label');
      if (!labelName.test(label) || Object.hasOwn(labels, label)) fail('invalid label name');
      labels[label] = value.replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
      at += whole?.length ?? 0;
      if (line[at] === ',') at += 1;
      else if (line[at] !== '}') fail('labels are not separated');
    }
    at += 1;
  }
  const text = line.slice(at);
  if (!/^ (?:[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|\+Inf|NaN)$/.test(text)) fail('invalid value');
  return { name, labels, value: Number(text) };
}

function checkHistogram({ name, samples }: ParsedMetric): void {
  const groups = new Map<string, { buckets: [number, number][]; sum?: number; count?: number }>();
  for (const { name: sample, labels, value } of samples) {
    const { le, ...others } = labels;
    const key = JSON.stringify(others);
    let group = groups.get(key);
    if (group === undefined) groups.set(key, (group = { buckets: [] }));
    if (sample === `${name}_bucket`) {
      if (le === undefined) throw new Error(`A bucket of ${name} has no le.`);
      group.buckets.push([le === '+Inf' ? Infinity : Number(le), value]);
    } else if (sample === `${name}_sum`) group.sum = value;
    else group.count = value;
  }
  for (const [key, { buckets, sum, count }] of groups) {
    const what = `${name}${key}`;
    for (const [index, [le, value]] of buckets.entries()) {
      const [before, less] = buckets[index - 1] ?? [-Infinity, 0];
      if (!(le > before)) throw new Error(`${what}: the bounds are not in order.`);
      if (value < less) throw new Error(`${what}: the buckets are not cumulative.`);
    }
    const [last, total] = buckets.at(-1) ?? [0, 0];
    if (last !== Infinity) throw new Error(`${what}: there is no bucket +Inf.`);
    if (sum === undefined || count === undefined) throw new Error(`${what}: no sum or count.`);
    if (total !== count) throw new Error(`${what}: the bucket +Inf is not the count.`);
  }
}

/** The value of a sample by its full name and all its labels, in their order; `undefined` if there is none. */
export function sample(
  metrics: ReadonlyMap<string, ParsedMetric>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const expected = JSON.stringify(labels);
  return [...metrics.values()]
    .flatMap(({ samples }) => samples)
    .find((one) => one.name === name && JSON.stringify(one.labels) === expected)?.value;
}

/** The names of metrics in a PromQL expression. */
export function metricsOf(expression: string): readonly string[] {
  return [...new Set(expression.match(/\bperdure_[a-z0-9_]+/g) ?? [])];
}
