/** The part of the package that the tests use. It has no types of its own. */
declare module 'parse-prometheus-text-format' {
  export default function parsePrometheusTextFormat(text: string): readonly {
    readonly name: string;
    readonly help: string;
    readonly type: string;
    readonly metrics: readonly {
      readonly labels?: Readonly<Record<string, string>>;
      /** Absent for a histogram. */
      readonly value?: string;
      readonly buckets?: Readonly<Record<string, string>>;
    }[];
  }[];
}
