import { notFoundByKind } from './not-found-by-kind.ts';
import { notFoundYet } from './not-found-yet.ts';

/** Guards whose removal the simulation does not find, and why. */
export interface NotFound {
  readonly reason: string;
  readonly faults: readonly string[];
}

/** All guards that are left to other suites. Each broken variant is either here or in `foundBy`. */
export const notFound: readonly NotFound[] = [...notFoundByKind, ...notFoundYet];
