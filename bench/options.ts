import { parseArgs } from 'node:util';
import { caseNames, chooseCases, isCaseName, type CaseName } from './cases.ts';
import { isProviderName, providerNames, type ProviderName } from './stores.ts';

/** The options of a run. */
export interface BenchOptions {
  readonly provider: ProviderName;
  readonly quick: boolean;
  readonly peers: boolean;
  readonly rounds: number;
  readonly workers: readonly number[] | undefined;
  readonly rows: number | undefined;
  readonly cases: readonly CaseName[];
}

const usage = `Usage: npm run bench [-- --provider ${providerNames.join('|')}] [--quick] [--rounds <n>] [--only <case>] [--workers <n>] [--rows <n>] [--peers]
Cases: ${caseNames.join(', ')}`;

/** Reads the command line. */
export function readOptions(): BenchOptions {
  const { values } = parseArgs({
    options: {
      provider: { type: 'string', default: 'sqlite' },
      quick: { type: 'boolean', default: false },
      peers: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true },
      rounds: { type: 'string' },
      workers: { type: 'string', multiple: true },
      rows: { type: 'string' },
    },
  });
  const { provider, quick, peers } = values;
  const only = values.only?.map(toCamelCase);
  const rounds = Number(values.rounds ?? (quick ? 1 : 3));
  const workers = values.workers?.map(Number);
  const rows = values.rows === undefined ? undefined : Number(values.rows);
  const unknown = only?.find((name) => !isCaseName(name));
  if (
    unknown !== undefined ||
    !isProviderName(provider) ||
    ![rounds, rows ?? 1, ...(workers ?? [])].every(isCount)
  ) {
    throw new Error(usage);
  }
  const cases = chooseCases({ provider, quick, peers, only });
  if (cases.length === 0) throw new Error(`No selected case runs on ${provider}.\n${usage}`);
  return { provider, quick, peers, rounds, workers, rows, cases };
}

/** Accepts `cold-start` for `coldStart`. */
function toCamelCase(name: string): string {
  return name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}
