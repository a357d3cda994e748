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
interface Selection {
  readonly find: RegExp;
  readonly times?: number;
  readonly because: string;
}

/** A statement with all its conditions. */
export interface FencedStatement {
  readonly name: string;
  readonly fences: readonly Omit<Fence, 'statement'>[];
  readonly selections: readonly Selection[];
  /** A case that sends it. */
  readonly sentBy: string | ConformanceCase;
}
