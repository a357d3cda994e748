/**
 * Fences of single-statement paths that are tested below the provider. A trial has rows and a batch. The path must not commit
 * a batch that the rules forbid, or for which the general path writes more. Without any of its fences it does.
 */
import assert from 'node:assert/strict';
import { describe, expect, it } from 'vitest';
import { applyMutation, rangesOf, recordStatements, type Mutation } from './mutation.ts';
import type { Selection } from './fence.ts';
import type { TrialReport } from './path-trial.ts';

/** A statement with all its conditions. */
interface PathStatement {
  readonly name: string;
  readonly fences: readonly (Omit<Mutation, 'statement'> & { readonly demands: string })[];
  readonly selections: readonly Selection[];
  /** Runs all trials, or those with one change. */
  readonly run: (which: 'all' | 'single') => Promise<TrialReport>;
  /** The number of trials that the path commits. */
  readonly commits: number;
}

/** Registers the tests of a statement. */
export function describePath({ name, fences, selections, run, commits }: PathStatement): void {
  describe(`the statement ${name}`, () => {
    it('every condition is listed as a fence or a selection', async () => {
      const texts = recordStatements();
      await run('single');
      const text = texts.get(name) ?? assert.fail(`${name} was not sent`);
      const listed = [...fences, ...selections].flatMap((each) => rangesOf(each, text));
      const conditions = [...text.matchAll(/\b(?:WHERE|AND|ON)\b\s*/g)].map(
        (keyword) => keyword.index + keyword[0].length,
      );
      const unlisted = conditions.filter(
        (place) => !listed.some(([start, end]) => start <= place && place < end),
      );
      expect(unlisted.map((place) => text.slice(place, place + 80))).toEqual([]);
    });

    it('commits only what the rules allow', async () => {
      const { committed, breaches, errors } = await run('all');
      expect(breaches).toEqual([]);
      expect(errors).toEqual([]);
      expect(committed).toBe(commits);
    });

    it.each(fences)('violates the rules without the fence: $demands', async (fence) => {
      const sent = applyMutation({ ...fence, statement: name });
      const { breaches } = await run('single');
      expect(sent()).toBeGreaterThan(0);
      expect(breaches).not.toEqual([]);
    });
  });
}
