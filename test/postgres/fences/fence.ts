import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import type { Mutation } from './mutation.ts';

/** A condition of a single-statement path, and the case that fails without it. */
interface Fence extends Mutation {
  /** What the condition requires. */
  readonly demands: string;
  /** The id of a conformance case, or a case that only this path needs. */
  readonly rejectedBy: string | ConformanceCase;
}

/** A condition that selects rows or a plan. Without it the result is the same, or only a race would show it. */
export interface Selection {
  readonly find: RegExp;
  readonly times?: number;
  readonly because?: string;
}

/** What the pause check of a statement requires. */
export const noPause = 'no paused definition';

/** A statement with all its conditions. */
export interface FencedStatement {
  readonly name: string;
  readonly fences: readonly Omit<Fence, 'statement'>[];
  readonly selections: readonly Selection[];
  /** The cases that send it with all of its variants. */
  readonly sentBy: string | ConformanceCase | readonly string[];
}

/**
 * The same statement with another pause check, which is sent while a definition is paused. Only that check is a fence: the
 * other conditions have the same text, and are tested where no definition is paused.
 */
export function besidePauses(
  { fences, selections }: FencedStatement,
  {
    pauseCheck: changed,
    selections: added = [],
    ...other
  }: {
    readonly name: string;
    readonly sentBy: string | readonly string[];
    /** If the check is part of another condition. */
    readonly pauseCheck?: Pick<Fence, 'find' | 'replace'>;
    readonly selections?: readonly Selection[];
  },
): FencedStatement {
  const because = 'is a fence of the statement that is sent while no definition is paused';
  const isPauseCheck = ({ demands }: { readonly demands: string }) => demands === noPause;
  const pauseCheck = fences.find(isPauseCheck);
  if (pauseCheck === undefined) throw new Error('The statement has no pause check.');
  return {
    ...other,
    fences: [
      {
        ...pauseCheck,
        find: /NOT EXISTS \(SELECT FROM \S+\.paused_definitions(?:(?!AS one\)).)+AS one\)(?= AS ok)/s,
        ...changed,
      },
    ],
    selections: [
      ...selections,
      ...added,
      ...fences.filter((fence) => !isPauseCheck(fence)).map((fence) => ({ ...fence, because })),
    ],
  };
}

/** Finds the limited definitions of new items. Without it, items of all of them would still be found. */
export const limitedItems: Selection = {
  find: /\(\(SELECT 1 FROM \S+\.limits LIMIT 1\) IS NOT NULL AND \(.*?'task:'\)\)\)\) IS NOT NULL\)\)/,
  because: 'finds which new items belong to limited definitions',
};

/** Finds the definition that counts a new item: the task of a call, or the definition of the item. */
export const limitKeys: Selection = {
  find: /sign\(\w+\.definition_key\)::int \* coalesce\(.*?abs\(\w+\.definition_key\)\)(?= END)/,
  because: 'finds which definition counts a new item',
};
