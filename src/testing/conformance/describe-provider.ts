import { PerdureError } from '../../model/failures/errors.ts';
import { capabilities, conformanceCases } from './conformance-cases.ts';
import { runCase, type ProviderUnderTest, type SkippedCase } from './run-case.ts';

/** The functions of a test runner that the suite uses. Vitest, Jest, Mocha and node:test provide them. */
export interface TestRunner {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly it: ((title: string, body: () => Promise<void>) => unknown) & {
    readonly skip: (title: string, body: () => Promise<void>) => unknown;
  };
}

/**
 * Registers the conformance suite for a provider. Default runner: the global `describe` and `it`.
 *
 *     describeProvider(
 *       { name: 'my store', create: ({ clock }) => openMyStore({ clock }) },
 *       { describe, it },
 *     );
 */
export function describeProvider(
  underTest: ProviderUnderTest,
  runner: TestRunner = globalRunner(),
): void {
  const reasons = reasonsToSkip(underTest.skip ?? []);
  runner.describe(`${underTest.name} conforms to the provider contract`, () => {
    for (const { title, cases } of capabilities) {
      runner.describe(title, () => {
        for (const each of cases) {
          const reason = reasons.get(each.id);
          const body = () => runCase(each, underTest);
          if (reason === undefined) runner.it(`${each.title} [${each.id}]`, body);
          else runner.it.skip(`${each.title} [${each.id}], skipped: ${reason}`, body);
        }
      });
    }
  });
}

function reasonsToSkip(skipped: readonly SkippedCase[]): ReadonlyMap<string, string> {
  const known = new Set(conformanceCases.map(({ id }) => id));
  const reasons = new Map<string, string>();
  for (const { case: id, reason } of skipped) {
    if (!known.has(id)) throw invalid(`\`skip\` names ${JSON.stringify(id)}, which is not a case`);
    if (reason.trim() === '') throw invalid(`the skip of ${JSON.stringify(id)} requires a reason`);
    reasons.set(id, reason);
  }
  return reasons;
}

function globalRunner(): TestRunner {
  const { describe, it } = globalThis as Partial<TestRunner>;
  if (describe === undefined || it === undefined) {
    throw invalid('no test runner found; pass `{ describe, it }` as the second argument');
  }
  return { describe, it };
}

function invalid(problem: string): PerdureError {
  return new PerdureError('INVALID_OPTION', `Invalid conformance suite: ${problem}.`);
}
