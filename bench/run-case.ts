/** Runs one case in this process and prints its results as JSON. */
import type { BenchmarkSetup } from './benchmark.ts';
import { cases, isCaseName } from './cases.ts';

const [name = '', setup = ''] = process.argv.slice(2);
if (!isCaseName(name)) throw new Error(`Unknown case ${JSON.stringify(name)}.`);
const figures = await cases[name].run(JSON.parse(setup) as BenchmarkSetup);
process.stdout.write(JSON.stringify(figures));
