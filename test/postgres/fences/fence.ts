import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import type { Mutation } from './mutation.ts';

/** A condition of a single-statement path, and the case that fails without it. */
interface Fence extends Mutation {
  /** What the condition demands. */
  readonly demands: string;
  /** The id of a conformance case, or a case that only this path needs. */
  readonly rejectedBy: string | ConformanceCase;
}

/** A condition that decides what is read, or how, and whose absence changes no outcome. */
interface Selection {
  readonly find: RegExp;
  readonly times?: number;
  readonly because: string;
}

/** A statement with everything that it demands. */
export interface FencedStatement {
  readonly name: string;
  readonly fences: readonly Omit<Fence, 'statement'>[];
  readonly selections: readonly Selection[];
  /** A case that sends it. */
  readonly sentBy: string | ConformanceCase;
}
