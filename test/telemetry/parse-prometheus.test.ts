import { describe, expect, it } from 'vitest';
import { metricsOf, parsePrometheus } from './parse-prometheus.ts';

const head = '# HELP a_total Help.\n# TYPE a_total counter\n';
const histogram = '# HELP h Help.\n# TYPE h histogram\n';

describe('parsePrometheus()', () => {
  it('reads labels with escapes, and histograms', () => {
    const text = `${head}a_total{x="a\\"b\\\\c\\nd",y=""} 1\n${histogram}h_bucket{le="0.1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3.5\nh_count 2\n`;
    const metrics = parsePrometheus(text);
    expect(metrics.get('a_total')?.samples).toEqual([
      { name: 'a_total', labels: { x: 'a"b\\c\nd', y: '' }, value: 1 },
    ]);
    expect(metrics.get('h')?.samples).toHaveLength(4);
  });

  it.each([
    ['a sample without TYPE', 'a 1\n'],
    ['TYPE without HELP', '# TYPE a_total counter\na_total 1\n'],
    ['a metric twice', `${head}${head}`],
    ['a duplicate sample', `${head}a_total{x="1"} 1\na_total{x="1"} 2\n`],
    ['a wrong escape', `${head}a_total{x="\\t"} 1\n`],
    ['a value that is no number', `${head}a_total one\n`],
    ['a sample of another metric', `${head}b_total 1\n`],
    ['a counter without _total', '# HELP a Help.\n# TYPE a counter\n'],
    ['a missing line feed at the end', `${head}a_total 1`],
    [
      'bounds out of order',
      `${histogram}h_bucket{le="2"} 1\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`,
    ],
    [
      'buckets that are not cumulative',
      `${histogram}h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`,
    ],
    ['a histogram without +Inf', `${histogram}h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`],
    ['a histogram whose count differs', `${histogram}h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`],
  ])('throws for %s', (_, text) => {
    expect(() => parsePrometheus(text)).toThrow(/^(?:Line \d+: |The last line|h\{)/);
  });
});

it('metricsOf() finds the names in an expression', () => {
  expect(metricsOf('sum(rate(perdure_a_total{x="1"}[5m])) / perdure_b')).toEqual([
    'perdure_a_total',
    'perdure_b',
  ]);
});
