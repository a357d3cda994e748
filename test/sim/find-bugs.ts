/**
 * `npm run sim:bugs`: searches for each planted bug, in `--seeds` seeds (default 2,000) from seed `--from` (default 1) on.
 * `--recorded` begins with the seed that found it before. `--only <text>` searches for all bugs whose fault contains the
 * text, also those that are not recorded as found. Prints one line of JSON per bug. `--shrink <fault>` prints the smallest
 * run that shows one of them.
 */
import { parseArgs } from 'node:util';
import type { PlantedBug } from './planted-bugs/planted-bug.ts';
import { foundBy } from './planted-bugs/found-by.ts';
import { allBugs } from './planted-bugs/planted-bugs.ts';
import { shrink, timeline } from './shrink.ts';
import { simulate } from './simulation.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '2000' },
    recorded: { type: 'boolean', default: false },
    shrink: { type: 'string' },
    only: { type: 'string', multiple: true },
    from: { type: 'string', default: '1' },
  },
});

interface Finding {
  readonly fault: string;
  readonly seed?: number;
  readonly violation?: string | undefined;
}

/** Whether a seed fails under the conditions of a bug, without the bug itself. */
async function failsWithout({ fault, weather }: PlantedBug, seed: number): Promise<boolean> {
  if (weather === undefined) return false;
  const { violations } = await simulate({ seed, bug: { fault, weather } });
  return violations.length > 0;
}

async function find(bug: PlantedBug, seeds: Iterable<number>): Promise<Finding> {
  for (const seed of seeds) {
    const { violations } = await simulate({ seed, bug });
    const violation = violations.find((one) => bug.finding?.test(one) !== false);
    if (violation === undefined || (await failsWithout(bug, seed))) continue;
    return { fault: bug.fault, seed, violation };
  }
  return { fault: bug.fault };
}

function* range(most: number, first?: number): Generator<number> {
  if (first !== undefined) yield first;
  const from = Number(values.from);
  for (let seed = from; seed < from + most; seed++) yield seed;
}

// Broken code may reject anywhere.
process.on('unhandledRejection', () => undefined);
let missed = 0;
const isWanted = ({ fault }: PlantedBug): boolean => {
  if (values.shrink !== undefined) return fault === values.shrink;
  if (values.only !== undefined) return values.only.some((text) => fault.includes(text));
  return foundBy[fault] !== undefined;
};
for (const bug of allBugs.filter((one) => isWanted(one))) {
  const seeds = range(Number(values.seeds), values.recorded ? foundBy[bug.fault] : undefined);
  const finding = await find(bug, seeds);
  if (finding.seed === undefined) missed += 1;
  if (values.shrink === undefined || finding.seed === undefined) {
    console.log(JSON.stringify(finding));
    continue;
  }
  const { report, runs, decisionsBefore } = await shrink({ seed: finding.seed, bug });
  console.log(timeline(report).join('\n'));
  console.log(JSON.stringify({ decisionsBefore, decisions: report.decisions, runs }));
}
// exit() drops writes to a pipe that are pending.
await new Promise((resolve) => process.stdout.write('', resolve));
process.exit(missed === 0 ? 0 : 1);
