import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { installDeterministicGlobals } from '../../src/orchestration/deterministic-globals.ts';
import { checkReplay } from '../../src/testing/replay-test.ts';
import { readHistory, withoutStacks } from './golden-history.ts';
import { playGolden } from './golden-program.ts';
import { goldenPrograms } from './golden-programs.ts';

installDeterministicGlobals();

describe.each(goldenPrograms)('golden history $name', (program) => {
  const { name: instanceId, executionId, definition, mutants } = program;
  const history = readHistory(program.name);
  const subject = { history, instanceId, executionId, incarnation: 'golden' };

  it('the golden history replays against its program', async () => {
    expect(await checkReplay({ ...subject, definition })).toEqual({ ok: true });
  });

  it('the program records the golden history again', async () => {
    const run = await playGolden(program);
    expect(run.history.map(withoutStacks)).toEqual(history);
  });

  it.each(mutants.map((mutant, index) => ({ ...mutant, number: index + 1 })))(
    'changed code $number diverges from the history at event $eventId',
    async ({ definition: changed, eventId }) => {
      expect(await checkReplay({ ...subject, definition: changed })).toMatchObject({
        ok: false,
        eventId,
      });
    },
  );
});

describe('golden histories', () => {
  it('every golden program has a history file and a mutant, at least twenty in total', () => {
    const files = readdirSync(join(import.meta.dirname, 'histories')).sort();
    expect(files).toEqual(goldenPrograms.map(({ name }) => `${name}.json`).sort());
    expect(files.length).toBeGreaterThanOrEqual(20);
    expect(goldenPrograms.every(({ mutants }) => mutants.length > 0)).toBe(true);
  });
});
