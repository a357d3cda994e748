/**
 * Removes the conditions of the single-statement paths one by one: a case must fail without each. A path without a fence
 * could commit what the multi-statement path rejects.
 */
import assert from 'node:assert/strict';
import { afterAll, describe, expect, it } from 'vitest';
import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import { conformanceCases } from '../../../src/testing/conformance/conformance-cases.ts';
import { runCase } from '../../../src/testing/conformance/run-case.ts';
import { PostgresDatabases } from '../../conformance/postgres-databases.ts';
import { abandonFences } from './abandon-fences.ts';
import { claimFences } from './claim-fences.ts';
import { startFences, startFencesBesidePauses, taskCreationFences } from './creation-fences.ts';
import type { Selection } from './fence.ts';
import { applyMutation, isVariant, occurs, rangesOf, recordStatements } from './mutation.ts';
import { taskAckFences } from './task-ack-fences.ts';
import { turnFences, turnFencesBesidePauses } from './turn-fences.ts';

const statements = [
  turnFences,
  turnFencesBesidePauses,
  startFences,
  startFencesBesidePauses,
  claimFences,
  taskCreationFences,
  taskAckFences,
  abandonFences,
];

const databases = new PostgresDatabases();
afterAll(() => databases.remove(), 120_000);

const { create, reopen, corrupt } = databases;
const run = (each: ConformanceCase): Promise<void> =>
  runCase(each, { name: 'PostgreSQL', create, reopen, corrupt });

function findCase(named: string | ConformanceCase): ConformanceCase {
  if (typeof named !== 'string') return named;
  const found = conformanceCases.find(({ id }) => id === named);
  assert.ok(found, `${named} is no case`);
  return found;
}

/** The conditions of a statement that are not listed. */
function unlistedIn(text: string, all: readonly Selection[]): readonly string[] {
  const listed = all.flatMap((each) => rangesOf(each, text));
  const conditions = [...text.matchAll(/\b(?:WHERE|AND|ON)\b\s*/g)].map(
    (keyword) => keyword.index + keyword[0].length,
  );
  return conditions
    .filter((place) => !listed.some(([start, end]) => start <= place && place < end))
    .map((place) => text.slice(place, place + 80));
}

describe.each(statements)('$name', ({ name, fences, selections, sentBy }) => {
  it('every condition of the statement is listed as a fence or a selection', async () => {
    const texts = recordStatements();
    for (const each of Array.isArray(sentBy) ? sentBy : [sentBy]) await run(findCase(each));
    const sent = [...texts].filter(([each]) => isVariant(each, name)).map(([, text]) => text);
    const all: readonly Selection[] = [...fences, ...selections];
    const unknown = fences.filter(({ find }) => !sent.some((text) => occurs(find, text)));
    expect(unknown).toEqual([]);
    const unlisted = sent.flatMap((text) =>
      unlistedIn(
        text,
        all.filter(({ find }) => occurs(find, text)),
      ),
    );
    expect(unlisted).toEqual([]);
  });

  const cases = new Set(fences.map(({ rejectedBy }) => findCase(rejectedBy)));
  it.each([...cases])('passes with all fences: $id', run);

  it.each(fences)('a case fails without the fence: $demands', async (fence) => {
    const sent = applyMutation({ ...fence, statement: name });
    const rejection: unknown = await run(findCase(fence.rejectedBy)).catch(
      (error: unknown) => error,
    );
    expect(sent()).toBeGreaterThan(0);
    // An assertion of the case, not an error of the changed statement.
    expect(rejection).toBeInstanceOf(assert.AssertionError);
    expect(String(rejection)).not.toMatch(/matches \d+ times|syntax error|does not exist/);
  });
});
